/** What a store that misbehaves does to the process as a whole: it ends when its work is done, and not before. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const index = new URL('../../src/index.ts', import.meta.url).href

/** What a program says that has a provider on the store `{ get, set, delete, ...store }`, and how it ends. */
async function run(store: string, work: string): Promise<{ said: string; code: unknown; ms: number }> {
  const program = `
    const { createTokenProvider } = await import(${JSON.stringify(index)})
    const hang = () => new Promise(() => {})
    const tokens = createTokenProvider({
      environment: { authUrl: 'https://a.example', audience: 'b', apiUrls: ['https://c.example'] },
      clientId: 'c', clientSecret: 'swordfish',
      store: { get: async () => undefined, set: async () => {}, delete: async () => {}, ...${store} },
      fetch: async () => Response.json({ access_token: 'a', expires_in: 60, token_type: 'bearer' }),
    })
    ${work}`
  const from = performance.now()
  const ended = promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
    timeout: 20_000,
  })
  const end = await ended.then(
    ({ stdout }) => ({ stdout, code: 0 as unknown }),
    (error: { stdout: string; code: unknown }) => error,
  )
  return { said: end.stdout.trim(), code: end.code, ms: performance.now() - from }
}

const GET = "await tokens.getToken(); console.log('token')"
const CLOSE = "await tokens.close(); console.log('closed')"

describe.concurrent('a process with a store', () => {
  it('stays alive while a call waits for a store that hangs', async () => {
    expect(await run('{ get: hang }', GET)).toMatchObject({ said: 'token', code: 0 })
  })

  it('stays alive while a call waits for another process', async () => {
    const lease = `{ lease: async () => (looks += 1) > 5 ? async () => {} : undefined }`
    expect(await run(lease, `globalThis.looks = 0; ${GET}`)).toMatchObject({ said: 'token', code: 0 })
  })

  it('is not kept alive by a write that hangs, whatever it may take', async () => {
    const { said, code, ms } = await run('{ set: hang, operationTimeoutMs: 15_000 }', GET)
    expect([said, code]).toEqual(['token', 0])
    expect(ms).toBeLessThan(10_000)
  })

  it('stays alive while close() waits for a store that hangs', async () => {
    expect(await run('{ set: hang }', `${GET}; ${CLOSE}`)).toMatchObject({ said: 'token\nclosed', code: 0 })
  })

  it('outlives a store that refuses a lease by false', async () => {
    const work = `${GET}; await new Promise((go) => setTimeout(go, 100)); console.log('alive')`
    expect(await run('{ lease: async () => false }', work)).toMatchObject({ said: 'token\nalive', code: 0 })
  })
})
