// The body of a 401 that no caller gets: drained where it is small, so that its connection can be used again, else cancelled.
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { rejectionOf } from '../support/ground.ts'
import { provided, token, untilAborted } from '../support/provided.ts'
import { MERCHANT_URL } from '../token/harness.ts'

const KIB = 1024

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

/** A 401 that counts what is read of its body, and whether it is cancelled. */
function rejected(chunks: readonly number[], length?: number | string) {
  const seen = { read: 0, cancelled: 0, ended: false }
  const left = [...chunks]
  const body = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const size = left.shift()
        if (size === undefined) {
          seen.ended = true
          controller.close()
        } else {
          seen.read += size
          controller.enqueue(new Uint8Array(size))
        }
      },
      cancel: () => {
        seen.cancelled += 1
      },
    },
    { highWaterMark: 0 },
  )
  const headers: Record<string, string> = length === undefined ? {} : { 'content-length': String(length) }
  return { seen, response: new Response(body, { status: 401, headers }) }
}

/** A call that gets these answers in turn, and then a good one. */
function fetchWith(answers: Response[], given: Parameters<typeof provided>[0] = {}, signal?: AbortSignal) {
  const fetch = async () => answers.shift() ?? new Response('fine')
  const tokens = provided({ current: token('current.token'), ...given })
  return createAuthFetch(tokens, { fetch })(MERCHANT_URL, signal ? { signal } : {})
}

async function afterARepeat(chunks: readonly number[], length?: number | string) {
  const { seen, response } = rejected(chunks, length)
  expect(await (await fetchWith([response])).text()).toBe('fine')
  for (let turn = 0; turn < 100 && !seen.ended && seen.cancelled === 0; turn += 1) await settled()
  return seen
}

describe('the body of a 401 that is repeated', () => {
  const whole = Array<number>(64).fill(KIB)

  it.each<[string, number[], number | string | undefined, object]>([
    ['nothing', [], undefined, { read: 0, cancelled: 0, ended: true }],
    ['a few bytes', [10], 10, { read: 10, cancelled: 0, ended: true }],
    ['a few bytes, the length unreadable', [10], 'ten', { read: 10, cancelled: 0, ended: true }],
    ['64 KiB, as its length says', [64 * KIB], 65_536, { read: 65_536, cancelled: 0, ended: true }],
    ['64 KiB in parts', whole, undefined, { read: 65_536, cancelled: 0, ended: true }],
    ['a byte more, as its length says', [...whole, 1], 65_537, { read: 0, cancelled: 1, ended: false }],
    ['a byte more', [...whole, 1], undefined, { read: 65_537, cancelled: 1, ended: false }],
    ['without an end', [...whole, ...whole], undefined, { read: 65 * KIB, cancelled: 1, ended: false }],
  ])('is drained up to 64 KiB, else cancelled: %s', async (_, chunks, length, expected) => {
    expect(await afterARepeat(chunks, length)).toEqual(expected)
    await settled()
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('the body of a 401 whose caller has left', () => {
  it('is discarded too', async () => {
    const { seen, response } = rejected([KIB], 100_000)
    const renewing = Promise.withResolvers<void>()
    const renew: TokenProvider['renewToken'] = (_, wait) => {
      renewing.resolve()
      return untilAborted(wait?.signal)
    }
    const abort = new AbortController()
    const call = fetchWith([response], { renew }, abort.signal)
    await renewing.promise
    abort.abort('enough')
    expect(await rejectionOf(call)).toBe('enough')
    await settled()
    expect(seen).toEqual({ read: 0, cancelled: 1, ended: false })
  })

  it('is the caller’s who has not', async () => {
    const { seen, response } = rejected([KIB])
    const renew = () => Promise.reject(new Error('no token'))
    const { signal } = new AbortController()
    expect(await fetchWith([response], { renew }, signal)).toBe(response)
    await settled()
    expect(seen).toEqual({ read: 0, cancelled: 0, ended: false })
  })

  it('is cancelled where it does not come', async () => {
    const cancel = vi.fn()
    const body = new ReadableStream({ cancel })
    expect((await fetchWith([new Response(body, { status: 401 })])).status).toBe(200)
    await vi.advanceTimersByTimeAsync(999)
    expect(cancel).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(cancel).toHaveBeenCalledTimes(1)
    expect(vi.getTimerCount()).toBe(0)
  })
})
