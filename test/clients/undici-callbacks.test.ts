// The callbacks of an undici call, made by hand in the order and at the moments that undici makes them.
import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { provided, token } from '../support/provided.ts'
import { agentWithRenewal, dispatched, ORIGIN, RecordingHandler } from './undici-calls.ts'

const MAX_BYTES = 64 * 1024

type Handler = Required<Dispatcher.DispatchHandler>

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

/** A controller that records how it is used. */
class RecordingController implements Dispatcher.DispatchController {
  readonly used: string[] = []
  aborted = false
  paused = false
  reason: Error | null = null
  rawHeaders: null = null
  rawTrailers: null = null

  readonly onResume: () => void

  constructor(onResume = () => {}) {
    this.onResume = onResume
  }

  abort(reason: Error): void {
    this.used.push(reason === undefined ? 'abort' : `abort: ${reason.message}`)
  }

  pause(): void {
    this.used.push('pause')
  }

  resume(): void {
    this.used.push('resume')
    this.onResume()
  }
}

class PausingAtStart extends RecordingHandler {
  override onRequestStart(controller: Dispatcher.DispatchController): void {
    super.onRequestStart(controller)
    controller.pause()
  }
}

/** A call whose first attempt is answered with a 401, and which waits for the renewal that `renew` settles. */
function rejected(
  recorded = new RecordingHandler(),
  headers: Record<string, string> = {},
  onResume: (first: Handler, controller: RecordingController) => void = () => {},
) {
  const { intercept, renew } = agentWithRenewal(ORIGIN)
  const attempts: Dispatcher.DispatchHandler[] = []
  const dispatch = intercept(((_: unknown, handler: Dispatcher.DispatchHandler) => {
    attempts.push(handler)
    return true
  }) as Dispatcher['dispatch'])
  dispatch({ origin: ORIGIN, path: '/', method: 'GET' }, recorded)
  const first = attempts[0] as Handler
  const controller = new RecordingController(() => onResume(first, controller))
  first.onRequestStart(controller, {})
  first.onResponseStart(controller, 401, headers, 'Unauthorized')
  const receive = (data: number | string) => {
    first.onResponseData(controller, Buffer.from(typeof data === 'string' ? data : 'x'.repeat(data)))
  }
  const usedBefore = controller.used.splice(0)
  const settle = async (renewed: Parameters<typeof renew>[0]) => {
    renew(renewed)
    await settled()
  }
  return { recorded, attempts, first, controller, receive, settle, used: controller.used, usedBefore }
}

describe('a 401 that undici receives', () => {
  it.each<[string, string | undefined, number, string[]]>([
    ['nothing of it has arrived', undefined, 0, []],
    ['as much has arrived as is read', undefined, MAX_BYTES, []],
    ['more has arrived', undefined, MAX_BYTES + 1, ['pause', 'abort']],
    ['as much is announced as is read', `${MAX_BYTES}`, 1, []],
    ['more is announced', `${MAX_BYTES + 1}`, 0, ['abort']],
    ['more is announced and it has begun', `${MAX_BYTES + 1}`, 1, ['pause', 'abort']],
  ])('is cut off after the renewal if it is large: %s', async (_, length, bytes, expected) => {
    const { attempts, receive, settle, used } = rejected(
      undefined,
      length ? { 'content-length': length } : {},
    )
    if (bytes > 0) receive(bytes)
    await settle(token('second.token'))
    expect(attempts).toHaveLength(2)
    expect(used).toEqual(expected)
  })

  it('is cut off when too much arrives after the renewal', async () => {
    const { receive, settle, used } = rejected()
    receive(MAX_BYTES - 1)
    await settle(token('second.token'))
    receive(1)
    expect(used).toEqual([])
    receive(1)
    expect(used).toEqual(['abort'])
  })

  it('is cut off when it lasts longer than a second after the renewal', async () => {
    const { settle, used } = rejected()
    vi.advanceTimersByTime(5_000)
    await settle(token('second.token'))
    vi.advanceTimersByTime(999)
    expect(used).toEqual([])
    vi.advanceTimersByTime(1)
    expect(used).toEqual(['abort'])
  })

  const ends: Record<string, (first: Handler) => void> = {
    ends: (first) => first.onResponseEnd(new RecordingController(), {}),
    breaks: (first) => first.onResponseError(new RecordingController(), new Error('broken')),
  }
  it.each([
    ['ends', 'before'],
    ['ends', 'after'],
    ['breaks', 'before'],
    ['breaks', 'after'],
  ] as const)('is not aborted if it %s %s the renewal, and its end is not passed on', async (how, when) => {
    const { recorded, first, receive, settle, used } = rejected()
    receive('x')
    if (when === 'before') ends[how]?.(first)
    await settle(token('second.token'))
    if (when === 'after') ends[how]?.(first)
    vi.advanceTimersByTime(5_000)
    expect([used, recorded.events]).toEqual([[], ['start']])
  })

  it('leaves the second attempt alone when it ends', async () => {
    const { recorded, first, attempts, settle, used } = rejected()
    await settle(token('second.token'))
    const second = new RecordingController()
    attempts[1]?.onRequestStart?.(second, {})
    first.onResponseEnd(new RecordingController(), {})
    recorded.controller?.abort(new Error('enough'))
    expect([used, second.used]).toEqual([[], ['abort: enough']])
  })

  it('is received even if the caller has paused before it', () => {
    const { usedBefore } = rejected(new PausingAtStart())
    expect(usedBefore).toEqual(['pause', 'resume'])
  })

  it('is held also if all of it arrives at once when it is resumed', async () => {
    const { recorded, settle } = rejected(new PausingAtStart(), {}, (first, controller) => {
      first.onResponseData(controller, Buffer.from('whole'))
      first.onResponseEnd(controller, {})
    })
    await settle(undefined)
    expect(recorded.events).toEqual(['start', 'answer 401'])
    recorded.controller?.resume()
    expect([recorded.events, recorded.body]).toEqual([['start', 'answer 401', 'end'], 'whole'])
  })

  it('is not resumed if the caller has not paused: an interceptor may have', () => {
    expect(rejected().usedBefore).toEqual([])
  })
})

describe('a 401 that undici passes on without a renewal', () => {
  it('is resumed if it was paused because it is large', async () => {
    const { settle, receive, used } = rejected()
    receive(MAX_BYTES + 1)
    await settle(undefined)
    expect(used).toEqual(['pause', 'resume'])
  })

  it('waits for a caller who has paused during the renewal', async () => {
    const { recorded, receive, settle, used } = rejected()
    receive('one ')
    recorded.controller?.pause()
    expect(used).toEqual([])
    await settle(undefined)
    receive('two')
    expect([recorded.events, recorded.body, used]).toEqual([['start', 'answer 401'], '', ['pause']])
    recorded.controller?.resume()
    expect([recorded.body, used]).toEqual(['one two', ['pause', 'resume']])
  })

  it('stops at each pause of the caller', async () => {
    const { recorded, receive, settle, used } = rejected(
      new RecordingHandler((controller) => controller.pause()),
    )
    receive('one ')
    receive('two ')
    await settle(undefined)
    expect([recorded.body, used]).toEqual(['one ', ['pause']])
    recorded.controller?.resume()
    expect([recorded.body, used]).toEqual(['one two ', ['pause', 'pause']])
    recorded.controller?.resume()
    expect(used).toEqual(['pause', 'pause', 'resume'])
  })

  it('fails after all of it was passed on, if its connection has broken', async () => {
    const { recorded, first, receive, settle } = rejected(
      new RecordingHandler((controller) => controller.pause()),
    )
    receive('one ')
    receive('two')
    first.onResponseError(new RecordingController(), new Error('broken'))
    await settle(undefined)
    expect([recorded.events, recorded.body]).toEqual([['start', 'answer 401'], 'one '])
    recorded.controller?.resume()
    expect([recorded.events, recorded.body]).toEqual([['start', 'answer 401', 'error'], 'one two'])
    expect(recorded.error?.message).toBe('broken')
  })

  it('fails, if its connection has broken and none of it has arrived, also for a caller who has paused', async () => {
    const { recorded, first, settle } = rejected(new PausingAtStart())
    first.onResponseError(new RecordingController(), new Error('broken'))
    await settle(undefined)
    expect(recorded.events).toEqual(['start', 'answer 401', 'error'])
  })

  it('is passed on chunk by chunk to a caller who pauses and resumes in the callback', async () => {
    const order: string[] = []
    const { recorded, receive, settle } = rejected(
      new RecordingHandler((controller) => {
        order.push(`begin ${recorded.body}`)
        controller.pause()
        controller.resume()
        order.push(`end ${recorded.body}`)
      }),
    )
    receive('1')
    receive('2')
    await settle(undefined)
    expect(order).toEqual(['begin 1', 'end 1', 'begin 12', 'end 12'])
  })

  it('is passed on in order to a caller who resumes in onResponseStart', async () => {
    class Resuming extends RecordingHandler {
      override onResponseStart(
        controller: Dispatcher.DispatchController,
        status: number,
        headers: object,
      ): void {
        controller.resume()
        super.onResponseStart(controller, status, headers as never)
      }
    }
    const { recorded, first, controller, receive, settle } = rejected(new Resuming())
    receive('whole')
    first.onResponseEnd(controller, {})
    await settle(undefined)
    expect([recorded.events, recorded.body]).toEqual([['start', 'answer 401', 'end'], 'whole'])
  })

  it.each(['before', 'after'])(
    'no longer pauses or resumes its connection once it has arrived, %s the renewal',
    async (when) => {
      const { recorded, first, receive, settle, used } = rejected()
      receive('one')
      if (when === 'after') await settle(undefined)
      recorded.controller?.pause()
      used.length = 0
      receive(' two')
      first.onResponseEnd(new RecordingController(), {})
      if (when === 'before') await settle(undefined)
      recorded.controller?.pause()
      recorded.controller?.resume()
      expect([recorded.events, recorded.body]).toEqual([['start', 'answer 401', 'end'], 'one two'])
      expect(used).toEqual([])
    },
  )

  it.each([true, false])(
    'ends if the handler throws, and is aborted unless it has arrived: %s',
    async (hasArrived) => {
      const { recorded, first, receive, settle, used } = rejected(
        new RecordingHandler(() => {
          throw new Error('thrown')
        }),
      )
      receive('one')
      if (hasArrived) first.onResponseEnd(new RecordingController(), {})
      await settle(undefined)
      expect(used.includes('abort: thrown')).toBe(!hasArrived)
      expect(recorded.error?.message).toBe(hasArrived ? 'thrown' : undefined)
    },
  )
})

describe('an undici caller', () => {
  it.each([undefined, token('second.token')])(
    'gets nothing more, and causes no further attempt, after it aborts around the end of a renewal: %o',
    async (renewed) => {
      const outcomes = new Set<string>()
      for (let turns = 0; turns < 20; turns += 1) {
        const { recorded, attempts, receive, settle, used } = rejected()
        receive(MAX_BYTES + 1)
        const done = settle(renewed)
        for (let turn = 0; turn < turns; turn += 1) await undefined
        const atAbort = [...recorded.events, attempts.length]
        recorded.controller?.abort(new Error('enough'))
        await done
        const isAborted = used.includes('abort: enough') // then undici ends it
        expect([...recorded.events, attempts.length]).toEqual(
          isAborted ? atAbort : [...recorded.events.slice(0, -1), 'error', attempts.length],
        )
        expect(attempts.length).toBe(atAbort.at(-1))
        expect(used.filter((use) => use.startsWith('abort'))).toHaveLength(1) // its connection is freed
        outcomes.add(String(isAborted || attempts.length))
      }
      expect(outcomes.size).toBe(2) // before and after the renewal's end
    },
  )

  it('keeps the reason of its first abort', () => {
    const { recorded } = rejected()
    const [first, second] = [new Error('first'), new Error('second')]
    recorded.controller?.abort(first)
    recorded.controller?.abort(second)
    expect([recorded.controller?.reason, recorded.error, recorded.events]).toEqual([
      first,
      first,
      ['start', 'error'],
    ])
  })

  it('keeps its body stream, for another call, if it aborts after its call has failed', async () => {
    const body = new Readable({ read: () => {} })
    const get = async () => Promise.reject(new Error('no token'))
    const { handler } = dispatched({ method: 'POST', body }, provided({ apiUrls: [ORIGIN], get }))
    await handler.ended
    handler.controller?.abort(new Error('too late'))
    expect([handler.error?.message, handler.controller?.aborted, body.destroyed]).toEqual([
      'no token',
      true,
      false,
    ])
  })

  it('can abort while it waits for a token with an old stream, which cannot be destroyed, as the body', async () => {
    const body = Object.assign(new EventEmitter(), { pipe: () => {} })
    const { handler } = dispatched({ method: 'POST', body }, provided({ apiUrls: [ORIGIN] }))
    handler.controller?.abort(new Error('enough'))
    expect(handler.error?.message).toBe('enough')
  })

  it.each(['onRequestUpgrade', 'onResponseEnd', 'onResponseStart', 'onResponseData'] as const)(
    'may omit %s, as with undici 7',
    (name) => {
      const { first, handler } = dispatched({})
      const attempt = first?.handler as Handler
      Object.assign(handler, { [name]: undefined })
      attempt.onRequestStart(new RecordingController(), {})
      expect(() =>
        attempt[name](new RecordingController(), 200 as never, {} as never, {} as never),
      ).not.toThrow()
    },
  )
})
