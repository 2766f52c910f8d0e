// The body of a 401 that no caller gets: it is drained if it is small, so that its connection is reused; otherwise it is canceled.
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { rejectionOf } from '../support/ground.ts'
import { provided, token, untilAborted } from '../support/provided.ts'
import { MERCHANT_URL } from '../token/harness.ts'

const KIB = 1024

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

/** A 401 that counts the bytes read from its body and records whether it is canceled. */
function rejected(chunks: readonly number[], length?: number | string) {
  const seen = { read: 0, cancelled: 0, ended: false }
  const remaining = [...chunks]
  const body = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const size = remaining.shift()
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

/** A call that gets these responses in turn, then a 200. */
function fetchWith(answers: Response[], given: Parameters<typeof provided>[0] = {}, signal?: AbortSignal) {
  const fetch = async () => answers.shift() ?? new Response('fine')
  const tokens = provided({ current: token('current.token'), ...given })
  return createAuthFetch(tokens, { fetch })(MERCHANT_URL, signal ? { signal } : {})
}

async function bodyAfterRepeat(chunks: readonly number[], length?: number | string) {
  const { seen, response } = rejected(chunks, length)
  expect(await (await fetchWith([response])).text()).toBe('fine')
  for (let turn = 0; turn < 100 && !seen.ended && seen.cancelled === 0; turn += 1) await settled()
  return seen
}

describe('the body of a 401 whose call is repeated', () => {
  const whole = Array<number>(64).fill(KIB)

  it.each<[string, number[], number | string | undefined, object]>([
    ['an empty body', [], undefined, { read: 0, cancelled: 0, ended: true }],
    ['a few bytes', [10], 10, { read: 10, cancelled: 0, ended: true }],
    ['a few bytes, with an invalid content-length', [10], 'ten', { read: 10, cancelled: 0, ended: true }],
    ['64 KiB, with a content-length', [64 * KIB], 65_536, { read: 65_536, cancelled: 0, ended: true }],
    ['64 KiB in chunks', whole, undefined, { read: 65_536, cancelled: 0, ended: true }],
    [
      '64 KiB and a byte, with a content-length',
      [...whole, 1],
      65_537,
      { read: 0, cancelled: 1, ended: false },
    ],
    ['64 KiB and a byte', [...whole, 1], undefined, { read: 65_537, cancelled: 1, ended: false }],
    ['more than 64 KiB', [...whole, ...whole], undefined, { read: 65 * KIB, cancelled: 1, ended: false }],
  ])('is drained up to 64 KiB, otherwise canceled: %s', async (_, chunks, length, expected) => {
    expect(await bodyAfterRepeat(chunks, length)).toEqual(expected)
    await settled()
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('the body of a 401', () => {
  it('is canceled if the caller aborts during the renewal', async () => {
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

  it('is left unread for the caller if the renewal fails', async () => {
    const { seen, response } = rejected([KIB])
    const renew = () => Promise.reject(new Error('no token'))
    const { signal } = new AbortController()
    expect(await fetchWith([response], { renew }, signal)).toBe(response)
    await settled()
    expect(seen).toEqual({ read: 0, cancelled: 0, ended: false })
  })

  it('is canceled after 1 s if it does not arrive', async () => {
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
