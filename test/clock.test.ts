import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock as clock } from '../src/clock.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('the system clock', () => {
  it('reads both clocks at each use', () => {
    const before = [clock.monotonicMs(), clock.epochMs()]
    vi.advanceTimersByTime(1_500)
    expect([clock.monotonicMs() - Number(before[0]), clock.epochMs() - Number(before[1])]).toEqual([
      1_500, 1_500,
    ])
  })

  it('sleeps for the given time, and leaves no listener', async () => {
    const { signal } = new AbortController()
    const woken = vi.fn()
    const sleep = clock.sleep(1_000, signal).then(woken)
    await vi.advanceTimersByTimeAsync(999)
    expect(woken).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    await sleep
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })

  it('rejects with the reason of the signal, and leaves no timer', async () => {
    const abort = new AbortController()
    const sleep = expect(clock.sleep(1_000, abort.signal)).rejects.toBe('woken')
    abort.abort('woken')
    await sleep
    await expect(clock.sleep(1_000, abort.signal)).rejects.toBe('woken')
    expect(vi.getTimerCount()).toBe(0)
  })

  it('does not return immediately from a sleep that is longer than a timer supports', async () => {
    const woken = vi.fn()
    void clock.sleep(2 ** 31 + 5).then(woken)
    await vi.advanceTimersByTimeAsync(1_000_000)
    expect(woken).not.toHaveBeenCalled()
  })
})
