// Callers that leave by a signal or a cancelToken, in every phase of a call (contract 3.7).
import axios, { AxiosError, CanceledError } from 'axios'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { rejectionOf } from '../attach/calls.ts'
import { settled } from '../support/clock.ts'
import { CLIENTS, type Client, ground } from './body-calls.ts'
import { call, heldIn, type Limits, PHASES, type Phase } from './signal-phases.ts'
import { tell } from './told.ts'

const AXIOS = ['axios http', 'axios fetch'] as const

const unhandled: unknown[] = []
const note = (reason: unknown): void => void unhandled.push(reason)
beforeEach(() => {
  unhandled.length = 0
  process.on('unhandledRejection', note)
})
afterEach(async () => {
  await settled()
  process.off('unhandledRejection', note)
  expect(unhandled).toEqual([])
})

/** The token requests and the sendings of the caller's own call, by when the caller has left. */
const DONE: Record<Phase, { tokens: number; sends: number }> = {
  'the first token': { tokens: 1, sends: 0 },
  'the API': { tokens: 1, sends: 1 },
  'the renewal': { tokens: 2, sends: 1 },
  'the repeated call': { tokens: 2, sends: 2 },
}

const count = (of: number, what: string): string => `${of} ${what}${of === 1 ? '' : 's'}`

/** A way to leave a call: what it is called with, and how it is told. */
interface Exit {
  readonly limits: Limits
  readonly reason: unknown
  leave(): void
}

const bySignal = (): Exit => {
  const abort = new AbortController()
  const reason = new Error('the customer has gone')
  return { limits: { signal: abort.signal }, reason, leave: () => abort.abort(reason) }
}

const byCancelToken = (): Exit => {
  const { token, cancel } = axios.CancelToken.source()
  return { limits: { cancelToken: token }, reason: undefined, leave: () => cancel('the customer has gone') }
}

const EXITS = [
  ['Aborted signal', bySignal, CLIENTS],
  ["axios' cancelToken", byCancelToken, AXIOS],
] as const

/** What a caller got, in a word, after a look at all of it. */
function judged(client: Client, error: unknown, { reason, limits: { cancelToken } }: Exit): string {
  if (client === 'fetch') {
    expect(error).toBe(reason)
    return "the signal's reason"
  }
  expect(axios.isCancel(error)).toBe(true)
  expect(error).toBeInstanceOf(CanceledError)
  expect(error).toBeInstanceOf(AxiosError)
  expect(error).toMatchObject({ code: 'ERR_CANCELED' })
  if (cancelToken !== undefined) expect(error).toMatchObject({ message: 'the customer has gone' })
  return (error as CanceledError<unknown>).name
}

for (const [group, exit, clients] of EXITS) {
  const cases = PHASES.flatMap((phase) => clients.map((client) => [phase, client] as const))
  describe(group, () => {
    it.for(cases)(
      'ends a call that waits for %s at once, and no other: %s',
      async ([phase, column], { task }) => {
        await using held = await heldIn(phase)
        const leaver = exit()
        const { mine, other } = await held.start(column, leaver.limits)
        leaver.leave()
        const got = judged(column, await rejectionOf(mine), leaver) // before anything that is held has been let go
        const { tokens, sends } = DONE[phase]
        expect(held.api.endpoint.count).toBe(tokens)
        expect(held.sends()).toBe(sends)
        if (phase === 'the first token' || phase === 'the renewal')
          expect(held.api.endpoint.requests.at(-1)?.init.signal?.aborted).toBe(false)
        held.release()
        expect(await other).toBe(200)
        await settled()
        expect(held.api.endpoint.count).toBe(tokens)
        expect(held.sends()).toBe(sends)
        tell(task, {
          table: 'signals',
          group,
          row: `waiting for ${phase}`,
          column,
          cell: `${got}; ${count(held.api.endpoint.count, 'token request')}, ${count(held.sends(), 'send')}`,
        })
      },
    )

    it.for(clients)(
      'before the call has nothing asked for and nothing sent: %s',
      async (column, { task }) => {
        await using api = await ground()
        const leaver = exit()
        leaver.leave()
        const got = judged(column, await rejectionOf(call(column, api, api.url, leaver.limits)), leaver)
        await settled()
        expect(api.endpoint.count).toBe(0)
        expect(api.server.seen).toEqual([])
        tell(task, {
          table: 'signals',
          group,
          row: 'before the call',
          column,
          cell: `${got}; ${count(api.endpoint.count, 'token request')}, ${count(api.server.seen.length, 'send')}`,
        })
      },
    )

    it.for(clients)('before a call with a fresh token has nothing sent: %s', async (column, { task }) => {
      await using api = await ground()
      await api.tokens.getToken()
      const leaver = exit()
      leaver.leave()
      const got = judged(column, await rejectionOf(call(column, api, api.url, leaver.limits)), leaver)
      await settled()
      expect(api.server.seen).toEqual([])
      tell(task, {
        table: 'signals',
        group,
        row: 'before the call, with a fresh token',
        column,
        cell: `${got}; ${count(api.server.seen.length, 'send')}`,
      })
    })

    it.for(clients)('after the answer changes nothing: %s', async (column, { task }) => {
      await using api = await ground()
      const leaver = exit()
      const status = await call(column, api, api.url, leaver.limits)
      leaver.leave()
      await settled()
      expect(status).toBe(200)
      expect(await call(column, api, api.url, {})).toBe(200)
      expect(api.endpoint.count).toBe(2)
      tell(task, { table: 'signals', group, row: 'after the answer', column, cell: `${status}` })
    })
  })
}
