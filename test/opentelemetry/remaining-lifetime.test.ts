/** The gauge of the current token's remaining lifetime: what it says, and whom it forgets. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { AggregationTemporality } from '@opentelemetry/sdk-metrics'
import type { AuthEvent } from 'merchant-auth'
import { createTelemetry } from 'merchant-auth/opentelemetry'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ACQUIRED, Collected, REQUESTED, setUp } from './harness.ts'

let collected: Collected
beforeEach(() => {
  collected = new Collected()
})
afterEach(async () => {
  vi.useRealTimers()
  await collected.shutdown()
})

const gauge = () => collected.series('token.remaining_lifetime')
const listener = (attributes = {}) => createTelemetry({ meterProvider: collected.meterProvider, attributes })

describe('the remaining lifetime', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'performance'] }))

  it('is not told before the first token', async () => {
    listener()(REQUESTED)
    expect(await gauge()).toEqual([])
  })

  it('counts down to 0 from what remained when the token came, and stays there', async () => {
    const tell = listener()
    tell({ ...ACQUIRED, remainsMs: 3_598_000 })
    expect(await gauge()).toEqual([{ attributes: {}, value: 3_598 }])
    vi.advanceTimersByTime(3_597_500)
    expect((await gauge())[0]?.value).toBe(0.5)
    vi.advanceTimersByTime(500)
    expect((await gauge())[0]?.value).toBe(0)
    vi.advanceTimersByTime(86_400_000)
    expect(await gauge()).toEqual([{ attributes: {}, value: 0 }])
  })

  it('begins anew with each token, and has its attributes', async () => {
    const tell = listener({ merchant: 'm-1' })
    tell(REQUESTED)
    tell(ACQUIRED)
    vi.advanceTimersByTime(1_800_000)
    tell(REQUESTED)
    tell({ ...ACQUIRED, remainsMs: 60_000, environment: 'test' })
    expect(await gauge()).toEqual([
      { attributes: { merchant: 'm-1', 'merchant_auth.environment': 'test' }, value: 60 },
    ])
  })

  it('ends when the wall clock says so, though the machine slept', async () => {
    const tell = listener()
    tell(REQUESTED)
    tell(ACQUIRED)
    vi.setSystemTime(Date.now() + 3_600_000)
    expect((await gauge())[0]?.value).toBe(0)
  })

  it('does not grow when the wall clock is set back', async () => {
    const tell = listener()
    tell(REQUESTED)
    tell(ACQUIRED)
    vi.setSystemTime(Date.now() - 3_600_000)
    expect((await gauge())[0]?.value).toBe(3_600)
    vi.advanceTimersByTime(3_600_000)
    expect((await gauge())[0]?.value).toBe(0)
  })

  it('of a token from a store is less than its lifetime', async () => {
    listener()({ ...ACQUIRED, source: 'store', remainsMs: 60_000 })
    expect(await gauge()).toEqual([{ attributes: {}, value: 60 }])
  })

  it('is that of the newest token where two listeners have the same attributes', async () => {
    const [one, other] = [listener(), listener()]
    for (const [tell, remainsMs] of [
      [one, 10_000],
      [other, 20_000],
      [one, 30_000],
    ] as const) {
      tell(REQUESTED)
      tell({ ...ACQUIRED, remainsMs })
      expect(await gauge()).toEqual([{ attributes: {}, value: remainsMs / 1000 }])
    }
  })
})

describe('a listener that is dropped', () => {
  const gc = exposedGc()

  it.each([
    ['0 where the SDK repeats what it knows', AggregationTemporality.CUMULATIVE, 0],
    ['not told any more where it does not', AggregationTemporality.DELTA, undefined],
  ])('is let go, and its gauge is %s', async (_, temporality, atLast) => {
    collected = new Collected(temporality)
    const kept = listener({ merchant: 'kept' })
    const dropped = new WeakRef(tellOnce(listener({ merchant: 'dropped' })))
    tellOnce(kept)
    const secondsOf = async (merchant: string) =>
      (await gauge()).find(({ attributes }) => attributes['merchant'] === merchant)?.value
    expect(await secondsOf('dropped')).toBeGreaterThan(3_500)
    for (let turn = 0; turn < 20 && dropped.deref() !== undefined; turn += 1) await gc()
    expect(dropped.deref()).toBeUndefined()
    await gc()
    await secondsOf('dropped') // tells 0, once
    expect(await secondsOf('dropped')).toBe(atLast)
    expect(await secondsOf('kept')).toBeGreaterThan(3_500)
    kept(ACQUIRED) // it is still there
  })

  it('does not end the gauge of one with the same attributes that took its place', async () => {
    const dropped = new WeakRef(tellOnce(listener({ merchant: 'm-1' })))
    await gauge()
    const next = tellOnce(listener({ merchant: 'm-1' }))
    for (let turn = 0; turn < 20 && dropped.deref() !== undefined; turn += 1) await gc()
    expect(dropped.deref()).toBeUndefined()
    await gc()
    const [series, ...others] = await gauge()
    expect(others).toEqual([])
    expect(series?.value).toBeGreaterThan(3_500)
    next(ACQUIRED)
  })

  function tellOnce(tell: (event: AuthEvent) => void) {
    tell(REQUESTED)
    tell(ACQUIRED)
    return tell
  }

  /** Collects what is dropped, and lets the finalizers run. */
  function exposedGc() {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    return async () => {
      await new Promise((resolve) => setImmediate(resolve))
      collect()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
})

describe('the remaining lifetime of a provider', () => {
  const bench = setUp()

  it('is what its token endpoint gave', async () => {
    await bench.watch().tokens.getToken()
    const [series] = await bench.collected.series('token.remaining_lifetime')
    expect(series?.attributes).toEqual({ 'merchant_auth.environment': 'test' })
    expect(series?.value).toBeGreaterThan(1_800)
    expect(series?.value).toBeLessThanOrEqual(3_600)
  })
})
