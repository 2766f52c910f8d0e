/** `npm run audit`: which packages it checks, and what makes it fail. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { json, text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { root } from '../../scripts/check-package/packed.ts'
import { listening } from '../attach/world.ts'

interface Batch {
  readonly queries: readonly { readonly package: { readonly purl: string } }[]
}

/** Runs the script with a service that reports one vulnerability, in `vulnerable`, or answers with another status. */
async function audit(vulnerable: string, status = 200) {
  const queried: string[] = []
  const server = createServer(async (request, response) => {
    const { queries } = (await json(request)) as Batch
    const purls = queries.map((query) => query.package.purl)
    queried.push(...purls)
    const results = purls.map((purl) => (purl === vulnerable ? { vulns: [{ id: 'GHSA-1' }] } : {}))
    response.writeHead(status).end(JSON.stringify({ results }))
  })
  await using osv = await listening(server)
  const child = spawn(process.execPath, [join(root, 'scripts/audit.ts'), '--osv', osv.url])
  const [stdout, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  return { queried, stdout, code }
}

it('npm run audit fails for a vulnerability in a bundled package', async () => {
  const bundled = Object.entries(packageJson.inlinedDependencies).map((one) => `pkg:npm/${one.join('@')}`)
  const [vulnerable = ''] = bundled
  const { queried, stdout, code } = await audit(vulnerable)
  expect(queried).toEqual(expect.arrayContaining(bundled))
  expect(stdout).toContain(`Users get ${vulnerable}: https://osv.dev/vulnerability/GHSA-1\n`)
  expect(stdout).toContain('1 with a known vulnerability; users get 1 of these.')
  expect(code).toBe(1)
})

it('npm run audit reports a vulnerability in a tool without failing', async () => {
  const vulnerable = `pkg:npm/%40biomejs/biome@${packageJson.devDependencies['@biomejs/biome']}`
  const { stdout, code } = await audit(vulnerable)
  expect(stdout).toContain(`A tool uses ${decodeURIComponent(vulnerable)}: `)
  expect(stdout).toContain('1 with a known vulnerability; users get 0 of these.')
  expect(code).toBe(0)
})

it('npm run audit fails if the vulnerability service fails', async () => {
  expect(await audit('', 503)).toMatchObject({ code: 1, stdout: '' })
})
