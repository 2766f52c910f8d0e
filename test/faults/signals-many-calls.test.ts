// One signal for ten thousand calls: no warning, no listener left behind, one token request (contract 3.7).
import { setMaxListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { settled } from '../support/clock.ts'
import { CLIENTS, soon } from './body-calls.ts'
import { type Crowd, calls, crowd, expectSilence, LONG_MS, listeners, MANY, manyOf } from './signal-crowds.ts'
import { tell } from './told.ts'

const GROUP = 'Many calls at once'

expectSilence()

const SITUATIONS = {
  'one signal, no token yet': { renewal: false, waiting: ({ endpoint }: Crowd) => endpoint.count === 1 },
  'one signal, all wait for a renewal': {
    renewal: true,
    waiting: ({ events }: Crowd, many: number) =>
      events.filter(({ type }) => type === 'token-rejected').length === many,
  },
}

describe('one signal for 10 000 calls', { timeout: LONG_MS }, () => {
  it.for(
    Object.entries(SITUATIONS).flatMap(([row, one]) => CLIENTS.map((client) => [row, client, one] as const)),
  )(
    'has one listener while they wait, and none afterwards: %s, %s',
    async ([row, column, { renewal, waiting }], { task }) => {
      const made = crowd(column, { renewal })
      const many = renewal ? manyOf(column) : MANY // twice ten thousand calls of axios take too long
      const { signal } = new AbortController()
      if (renewal) await made.provider.getToken()
      // An AbortSignal warns of nothing unless it is told to.
      setMaxListeners(1, signal)
      if (renewal && column !== 'fetch') setMaxListeners(0, signal) // axios itself listens while it sends
      const statuses = calls(made, many, () => ({ signal }))
      await soon(() => waiting(made, many))
      await settled()
      const during = listeners(signal)
      expect(during).toBe(1)
      setMaxListeners(0, signal)
      made.release()
      expect(new Set(await statuses)).toEqual(new Set([200]))
      await settled()
      expect(listeners(signal)).toBe(0)
      expect(made.endpoint.count).toBe(renewal ? 2 : 1)
      expect(made.received()).toBe(renewal ? 2 * many : many)
      const requests = made.endpoint.count === 1 ? '1 token request' : `${made.endpoint.count} token requests`
      tell(task, {
        table: 'signals',
        group: GROUP,
        row,
        column,
        cell: `${many} calls, ${requests}; ${during} listener, then ${listeners(signal)}`,
      })
    },
  )

  it.for(CLIENTS)('has no listener of this package’s with a fresh token: %s', async (column, { task }) => {
    const made = crowd(column, { held: false })
    await made.provider.getToken()
    const { signal } = new AbortController()
    const many = manyOf(column)
    const statuses = calls(made, many, () => ({ signal }))
    // axios listens itself while it sends, fetch here does not.
    if (column === 'fetch') expect(listeners(signal)).toBe(0)
    expect(new Set(await statuses)).toEqual(new Set([200]))
    await settled()
    expect(listeners(signal)).toBe(0)
    expect(made.endpoint.count).toBe(1)
    const cell = `${many} calls, ${made.endpoint.count} token request; ${listeners(signal)} listeners left`
    tell(task, { table: 'signals', group: GROUP, row: 'one signal, a fresh token', column, cell })
  })
})
