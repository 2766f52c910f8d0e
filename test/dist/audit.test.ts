/** `npm run audit`: which packages it checks, and what makes it fail. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { json, text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { root } from '../../scripts/packed.ts'
import { listening } from '../attach/world.ts'

interface Batch {
  readonly queries: readonly {
    readonly package: { readonly ecosystem: string; readonly name: string }
    readonly version: string
  }[]
}

/** Runs the script with a service that reports one vulnerability, in `vulnerable`, or returns another status. */
async function audit(vulnerable: string, status = 200) {
  const queried: Record<string, string> = {}
  const server = createServer(async (request, response) => {
    const { queries } = (await json(request)) as Batch
    const results = queries.map(({ package: { ecosystem, name }, version }) => {
      if (ecosystem === 'npm') queried[name] = version
      return name === vulnerable ? { vulns: [{ id: 'GHSA-1' }] } : {}
    })
    response.writeHead(status).end(JSON.stringify({ results }))
  })
  await using osv = await listening(server)
  const child = spawn(process.execPath, [join(root, 'scripts/audit.ts'), '--osv', osv.url])
  const [stdout, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  return { queried, stdout, code }
}

it('npm run audit fails for a vulnerability in a bundled package', async () => {
  const { stdout, code } = await audit('zod')
  const { zod } = packageJson.inlinedDependencies
  expect(stdout).toContain(`zod ${zod}: https://osv.dev/vulnerability/GHSA-1\n`)
  expect(code).toBe(1)
})

it('npm run audit checks each bundled package, and passes if none is vulnerable', async () => {
  const { queried, code } = await audit('axios')
  expect(queried).toEqual(packageJson.inlinedDependencies)
  expect(code).toBe(0)
})

it('npm run audit fails if the vulnerability service fails', async () => {
  expect(await audit('', 503)).toMatchObject({ code: 1, stdout: '' })
})
