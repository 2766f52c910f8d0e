// Whether the process ends or stays alive: with a background renewal, in a pause, with a store.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { runProgram } from '../support/program.ts'

/** Runs a program against a token endpoint that sends the scripted responses in turn. */
async function runAgainst(
  body: string,
  answers: { status: number; headers?: Record<string, string>; token?: object; afterMs?: number }[],
) {
  const server = createServer((_, response) => {
    const { status, headers, token, afterMs = 0 } = answers.shift() ?? { status: 500 }
    setTimeout(() => {
      response.writeHead(status, { connection: 'close', ...headers }).end(JSON.stringify(token ?? {}))
    }, afterMs)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const authUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const environment = { authUrl, audience: 'test', apiUrls: ['http://localhost'] }
  try {
    return await runProgram(`
      const failed = Promise.withResolvers()
      const tokens = createTokenProvider({
        environment: ${JSON.stringify(environment)},
        clientId: 'id',
        clientSecret: 'hush-hush',
        timeoutMs: 3_600_000,
        clock,
        onEvent: ({ type }) => type === 'token-request-failed' && failed.resolve(),
      })
      ${body}`)
  } finally {
    server.close()
  }
}

const TOKEN = { access_token: 'a.b.c', token_type: 'Bearer', expires_in: 600 }

describe('a process', () => {
  it('ends after a background renewal that failed', async () => {
    const ended = await runAgainst(
      `await tokens.getToken()
       later(570_000) // into the refresh window
       console.log(tokens.currentToken() !== undefined)
       await failed.promise`,
      [
        { status: 200, token: TOKEN },
        { status: 503, headers: { 'retry-after': '600' } },
      ],
    )
    expect(ended).toEqual({ said: 'true', code: 0 })
  })

  it('ends while a background renewal hangs', async () => {
    const ended = await runProgram(`
      const asked = Promise.withResolvers()
      let calls = 0
      const tokens = createTokenProvider({
        environment: { authUrl: 'https://a.example', audience: 'https://b.example', apiUrls: ['https://b.example'] },
        clientId: 'c', clientSecret: 'swordfish', timeoutMs: 3_600_000, clock,
        fetch: async () => {
          calls += 1
          if (calls === 1) return Response.json({ access_token: 'a', expires_in: 600, token_type: 'bearer' })
          asked.resolve()
          return await new Promise(() => {})
        },
      })
      await tokens.getToken()
      later(570_000) // into the refresh window
      tokens.currentToken()
      await asked.promise
      console.log(calls)`)
    expect(ended).toEqual({ said: '2', code: 0 })
  })

  it('stays alive while a caller waits for a background renewal', async () => {
    const ended = await runAgainst(
      `await tokens.getToken()
       later(570_000)
       tokens.currentToken()
       later(25_000) // past the expiry margin
       const waiting = tokens.getToken()
       console.log(tokens.currentToken() === undefined, (await waiting).value)`,
      [
        { status: 200, token: TOKEN },
        { status: 200, token: { ...TOKEN, access_token: 'd.e.f' }, afterMs: 300 },
      ],
    )
    expect(ended).toEqual({ said: 'true d.e.f', code: 0 })
  })

  it('stays alive while a caller waits in the pause before a retry, when no connection is open', async () => {
    const ended = await runAgainst('console.log((await tokens.getToken()).value)', [
      { status: 503, headers: { 'retry-after': '1' } },
      { status: 200, token: TOKEN },
    ])
    expect(ended).toEqual({ said: 'a.b.c', code: 0 })
  })

  it('ends in such a pause once no caller waits any more', async () => {
    const ended = await runAgainst(
      `const caller = new AbortController()
       const waiting = tokens.getToken({ signal: caller.signal })
       await failed.promise
       caller.abort(new Error('gone'))
       console.log(await waiting.catch(({ message }) => message))`,
      [{ status: 503, headers: { 'retry-after': '3000' } }],
    )
    expect(ended).toEqual({ said: 'gone', code: 0 })
  })
})

/** Runs a program whose provider has the store `{ get, set, ...store }`; resolves with output and exit code. */
const runWithStore = (store: string, work: string) =>
  runProgram(`
    const hang = () => new Promise(() => {})
    const tokens = createTokenProvider({
      environment: { authUrl: 'https://a.example', audience: 'b', apiUrls: ['https://c.example'] },
      clientId: 'c', clientSecret: 'swordfish',
      store: { get: async () => undefined, set: async () => {}, ...${store} },
      timeoutMs: 2_000,
      fetch: async () => Response.json({ access_token: 'a', expires_in: 600, token_type: 'bearer' }),
    })
    ${work}`)

const GET = "await tokens.getToken(); console.log('token')"
const CLOSE = "await tokens.close(); console.log('closed')"

describe.concurrent('a process with a store', () => {
  const others = '{ lease: async () => (looks += 1) > 5 ? async () => {} : undefined }'
  const asking = '{ set: () => { asked.resolve(); return hang() } }'
  // The call ends at once, so only close() waits for the write.
  const closing = `
    const asked = Promise.withResolvers()
    tokens.getToken().catch(({ code }) => console.log(code))
    await asked.promise
    ${CLOSE}`
  it.each([
    ['stays alive while a call waits for a store that hangs', '{ get: hang }', GET, 'token'],
    ['stays alive while a call waits for another process', others, `globalThis.looks = 0; ${GET}`, 'token'],
    ['is not kept alive by a write that hangs', '{ set: hang }', GET, 'token'],
    [
      'stays alive while close() waits for a write that hangs',
      asking,
      closing,
      'ERR_PROVIDER_CLOSED\nclosed',
    ],
  ])('%s', async (_, store, work, said) => {
    expect(await runWithStore(store, work)).toEqual({ said, code: 0 })
  })
})
