/** What a store that misbehaves does to the process as a whole: it ends when its work is done, and not before. */
import { describe, expect, it } from 'vitest'
import { runProgram } from '../support/program.ts'

/** What a program says that has a provider on the store `{ get, set, delete, ...store }`, and how it ends. */
const run = (store: string, work: string) =>
  runProgram(`
    const hang = () => new Promise(() => {})
    const tokens = createTokenProvider({
      environment: { authUrl: 'https://a.example', audience: 'b', apiUrls: ['https://c.example'] },
      clientId: 'c', clientSecret: 'swordfish',
      store: { get: async () => undefined, set: async () => {}, delete: async () => {}, ...${store} },
      timeoutMs: 2_000,
      fetch: async () => Response.json({ access_token: 'a', expires_in: 600, token_type: 'bearer' }),
    })
    ${work}`)

const GET = "await tokens.getToken(); console.log('token')"
const CLOSE = "await tokens.close(); console.log('closed')"

describe.concurrent('a process with a store', () => {
  it('stays alive while a call waits for a store that hangs', async () => {
    expect(await run('{ get: hang }', GET)).toEqual({ said: 'token', code: 0 })
  })

  it('stays alive while a call waits for another process', async () => {
    const lease = `{ lease: async () => (looks += 1) > 5 ? async () => {} : undefined }`
    expect(await run(lease, `globalThis.looks = 0; ${GET}`)).toEqual({ said: 'token', code: 0 })
  })

  it('is not kept alive by a write that hangs, whatever it may take', async () => {
    expect(await run('{ set: hang, operationTimeoutMs: 3_600_000 }', GET)).toEqual({ said: 'token', code: 0 })
  })

  it('stays alive while close() waits for a store that hangs', async () => {
    expect(await run('{ set: hang }', `${GET}; ${CLOSE}`)).toEqual({ said: 'token\nclosed', code: 0 })
  })

  it('outlives a store that refuses a lease by false', async () => {
    const work = `${GET}; await new Promise((go) => setTimeout(go, 100)); console.log('alive')`
    expect(await run('{ lease: async () => false }', work)).toEqual({ said: 'token\nalive', code: 0 })
  })
})
