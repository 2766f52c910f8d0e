// What callers get of their signals' reasons, whatever these are and whichever signal it is (contract 3.7, 5.8).
import axios from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { rejectionOf } from '../attach/calls.ts'
import { settled } from '../support/clock.ts'
import { CLIENTS, soon } from './body-calls.ts'
import { heldIn, PHASES } from './signal-phases.ts'
import { tell } from './told.ts'

const GROUP = 'Reasons of a signal, in every phase'

class OwnError extends Error {
  override name = 'OwnError'
}

/** A signal, how it is aborted, and in which word its reason is told. */
interface Case {
  readonly row: string
  readonly told: string
  make(): { signal: AbortSignal; abort: () => void }
}

function aborting(row: string, told: string, ...reason: [unknown?]): Case {
  return {
    row,
    told,
    make: () => {
      const controller = new AbortController()
      return { signal: controller.signal, abort: () => controller.abort(...reason) }
    },
  }
}

const REASONS: readonly Case[] = [
  aborting('none', 'AbortError'),
  aborting('undefined', 'AbortError', undefined),
  aborting("an error of the caller's class", 'that error', new OwnError('gone')),
  aborting('a string', 'that string', 'gone'),
  aborting('null', 'null', null),
  aborting('an object', 'that object', { left: true }),
  {
    row: 'AbortSignal.any: one of two',
    told: 'that error',
    make: () => {
      const controller = new AbortController()
      const signal = AbortSignal.any([new AbortController().signal, controller.signal])
      return { signal, abort: () => controller.abort(new OwnError('gone')) }
    },
  },
]

function word(error: unknown): string {
  if (error instanceof DOMException) return error.name
  if (error instanceof Error) return 'that error'
  return error === null ? 'null' : `that ${typeof error}`
}

describe("a signal's reason", () => {
  it.for(REASONS.flatMap((one) => CLIENTS.map((client) => [one.row, client, one] as const)))(
    '%s, is what the caller of fetch gets, and axios’ own error that of axios: %s',
    async ([row, column, { make, told }], { task }) => {
      const got = new Set<string>()
      for (const phase of PHASES) {
        await using held = await heldIn(phase)
        const { signal, abort } = make()
        const { mine } = await held.start(column, { signal })
        abort()
        const error = await rejectionOf(mine)
        if (column === 'fetch') expect(error).toBe(signal.reason)
        else expect(axios.isCancel(error)).toBe(true)
        got.add(column === 'fetch' ? word(error) : (error as Error).name)
      }
      expect([...got]).toEqual([column === 'fetch' ? told : 'CanceledError'])
      tell(task, { table: 'signals', group: GROUP, row, column, cell: [...got].join() })
    },
  )

  it.for(CLIENTS)('is a TimeoutError with AbortSignal.timeout: %s', async (column, { task }) => {
    await using held = await heldIn('the first token')
    const signal = AbortSignal.timeout(1)
    const { mine } = await held.start(column, { signal })
    const error = await rejectionOf(mine)
    expect(held.api.endpoint.count).toBe(1)
    if (column === 'fetch') {
      expect(error).toBe(signal.reason)
      expect(error).toBeInstanceOf(DOMException)
    } else expect(axios.isCancel(error)).toBe(true)
    const cell = (error as Error).name
    expect(cell).toBe(column === 'fetch' ? 'TimeoutError' : 'CanceledError')
    tell(task, { table: 'signals', group: GROUP, row: 'AbortSignal.timeout (first token)', column, cell })
  })
})

type Fetched = (url: string, signal: AbortSignal) => [Request, RequestInit?]

/** Makes a call of fetch and aborts the signal in the wait for its first token. */
async function abortedInWait(make: Fetched): Promise<{ outcome: unknown; reason: unknown }> {
  await using held = await heldIn('the first token')
  const controller = new AbortController()
  const [input, init] = make(`${held.api.server.url}/mine`, controller.signal)
  const outcome = createAuthFetch(held.api.tokens)(input, init).then(
    ({ status }) => status,
    (error: unknown) => error,
  )
  await soon(() => held.api.endpoint.count === 1)
  controller.abort(new OwnError('gone'))
  await settled()
  held.release()
  return { outcome: await outcome, reason: controller.signal.reason }
}

describe('the signal of a Request', () => {
  const other = new AbortController().signal
  it.for<[row: string, ends: boolean, make: Fetched]>([
    ["a Request's own", true, (url, signal) => [new Request(url, { signal })]],
    ["init's beside a Request's", true, (url, signal) => [new Request(url, { signal: other }), { signal }]],
    [
      'a Request’s, init.signal: undefined',
      true,
      (url, signal) => [new Request(url, { signal }), { signal: undefined } as object],
    ],
    [
      'a Request’s, init.signal: null',
      false,
      (url, signal) => [new Request(url, { signal }), { signal: null }],
    ],
    ['a Request’s, init another', false, (url, signal) => [new Request(url, { signal }), { signal: other }]],
  ])('%s: ends the wait: %s', async ([row, ends, make], { task }) => {
    const { outcome, reason } = await abortedInWait(make)
    expect(outcome).toBe(ends ? reason : 200)
    const cell = outcome === reason ? 'that error' : String(outcome)
    tell(task, {
      table: 'signals',
      group: 'Whose signal, in the wait for a token',
      row,
      column: 'fetch',
      cell,
    })
  })
})
