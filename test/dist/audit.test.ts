/** `npm run audit`: which packages it asks about, and what fails it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { json, text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { root } from '../../scripts/check-package/packed.ts'
import { listening } from '../clients/world.ts'

interface Batch {
  readonly queries: readonly { readonly package: { readonly purl: string } }[]
}

/** Runs it with a service that knows one vulnerability, that of `vulnerable`, or fails with another status than 200. */
async function audit(vulnerable: string, status = 200) {
  const asked: string[] = []
  const server = createServer(async (request, response) => {
    const { queries } = (await json(request)) as Batch
    const purls = queries.map((query) => query.package.purl)
    asked.push(...purls)
    const results = purls.map((purl) => (purl === vulnerable ? { vulns: [{ id: 'GHSA-1' }] } : {}))
    response.writeHead(status).end(JSON.stringify({ results }))
  })
  await using osv = await listening(server)
  const child = spawn(process.execPath, [join(root, 'scripts/audit.ts'), '--osv', osv.url])
  const [stdout, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  return { asked, stdout, code }
}

it('fails for a vulnerability in a bundled package', async () => {
  const bundled = Object.entries(packageJson.inlinedDependencies).map((one) => `pkg:npm/${one.join('@')}`)
  const [vulnerable = ''] = bundled
  const { asked, stdout, code } = await audit(vulnerable)
  expect(asked).toEqual(expect.arrayContaining(bundled))
  expect(stdout).toContain(`Users get ${vulnerable}: https://osv.dev/vulnerability/GHSA-1\n`)
  expect(stdout).toContain('1 with a known vulnerability; users get 1 of these.')
  expect(code).toBe(1)
})

it('names a vulnerability in a tool, and does not fail for it', async () => {
  const vulnerable = `pkg:npm/%40biomejs/biome@${packageJson.devDependencies['@biomejs/biome']}`
  const { stdout, code } = await audit(vulnerable)
  expect(stdout).toContain(`A tool uses ${decodeURIComponent(vulnerable)}: `)
  expect(stdout).toContain('1 with a known vulnerability; users get 0 of these.')
  expect(code).toBe(0)
})

it('fails where the service does', async () => {
  expect(await audit('', 503)).toMatchObject({ code: 1, stdout: '' })
})
