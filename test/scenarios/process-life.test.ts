import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const run = promisify(execFile)
const SOURCE = new URL('../../src/index.ts', import.meta.url).href

/** Runs a script against a token endpoint that gives the scripted answers in turn; its output, and how long it ran. */
async function script(
  body: string,
  answers: { status: number; headers?: Record<string, string>; token?: object }[],
) {
  const server = createServer((_, response) => {
    const { status, headers, token } = answers.shift() ?? { status: 500 }
    response.writeHead(status, { connection: 'close', ...headers }).end(JSON.stringify(token ?? {}))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const authUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const environment = { authUrl, audience: 'test', apiUrls: ['http://localhost'] }
  const code = `
    import { createTokenProvider } from ${JSON.stringify(SOURCE)}
    const tokens = createTokenProvider({ environment: ${JSON.stringify(environment)}, clientId: 'id', clientSecret: 'hush-hush' })
    ${body}`
  const startedAt = performance.now()
  try {
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', code], { timeout: 20_000 })
    return { stdout, code: 0, ms: performance.now() - startedAt }
  } catch (error) {
    const { stdout, code } = error as { stdout: string; code: number }
    return { stdout, code, ms: performance.now() - startedAt }
  } finally {
    server.close()
  }
}

const token = (seconds: number) => ({ access_token: 'a.b.c', token_type: 'Bearer', expires_in: seconds })

describe('a process', () => {
  it('ends with its work, though a renewal in the background pauses before its next attempt', async () => {
    const { stdout, code, ms } = await script(
      `await tokens.getToken()
       await new Promise((resolve) => setTimeout(resolve, 1_650)) // into the window of a token of 2 s
       console.log(tokens.currentToken() !== undefined)
       await new Promise((resolve) => setTimeout(resolve, 500))`,
      [
        { status: 200, token: token(2) },
        { status: 503, headers: { 'retry-after': '8' } },
      ],
    )
    expect({ stdout: stdout.trim(), code }).toEqual({ stdout: 'true', code: 0 })
    expect(ms).toBeLessThan(8_000)
  })

  it('stays alive for a caller that waits behind such a renewal', async () => {
    const { stdout, code } = await script(
      `await tokens.getToken()
       await new Promise((resolve) => setTimeout(resolve, 1_650))
       tokens.currentToken()
       await new Promise((resolve) => setTimeout(resolve, 300)) // past the margin
       console.log(tokens.currentToken() === undefined, (await tokens.getToken()).value)`,
      [
        { status: 200, token: token(2) },
        { status: 503, headers: { 'retry-after': '1' } },
        { status: 200, token: token(600) },
      ],
    )
    expect({ stdout: stdout.trim(), code }).toEqual({ stdout: 'true a.b.c', code: 0 })
  })
})
