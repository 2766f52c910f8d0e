import type { AuthEvent } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { createEmit } from '../../src/events.ts'
import { StoreFailure, WatchedStore } from '../../src/store/watched-store.ts'
import { ManualClock } from '../support/clock.ts'
import { rejection } from '../token/harness.ts'
import { answers, FAILURES, MemoryStore, slow } from './memory-store.ts'

function made({ leases = true } = {}) {
  const clock = new ManualClock()
  const inner = new MemoryStore(clock, { leases })
  const events: AuthEvent[] = []
  const emit = createEmit((event) => events.push(event), undefined)
  const isSecret = (text: string): boolean => text === 'SWORDFISH'
  return { clock, inner, events, store: new WatchedStore(inner, { clock, emit, isSecret }) }
}

/** The code that is told of an error. */
async function codeOf(error: unknown): Promise<string | undefined> {
  const { inner, events, store } = made()
  inner.faults.get = () => Promise.reject(error)
  await rejection(store.get('k'))
  const [event] = events
  return event?.type === 'store-failed' ? event.code : 'another event'
}

describe('a watched store', () => {
  it('does what the store does, and tells nothing of it', async () => {
    const { inner, events, store } = made()
    await store.set('k', 'v', 500)
    expect(await store.get('k')).toMatchObject({ value: 'v', ttlMs: 500 })
    const release = await store.lease('k', 100)
    expect(await store.lease('k', 100)).toBeUndefined()
    await release?.()
    expect(inner.leased).toBe(0)
    await store.delete('k')
    expect(await store.get('k')).toBeUndefined()
    expect(events).toEqual([])
  })

  it('says whether leases mean anything', async () => {
    expect(made().store.leases).toBe(true)
    const { store } = made({ leases: false })
    expect([store.leases, await store.lease('k', 100)]).toEqual([false, undefined])
  })

  it('notes the time at which it asked, not that of the answer', async () => {
    const { clock, inner, store } = made()
    inner.put('k', 'v', 10_000)
    inner.faults.get = slow(clock, 100)
    const readAt = { monotonicMs: clock.monotonicMs(), epochMs: clock.epochMs() }
    const waiting = store.get('k')
    await clock.advance(100)
    expect(await waiting).toEqual({ value: 'v', ttlMs: 9_900, readAt })
  })

  it.each(['get', 'set', 'delete', 'lease'] as const)('tells which operation failed: %s', async (name) => {
    const { inner, events, store } = made()
    inner.faults[name] = FAILURES.rejects
    const act = {
      get: () => store.get('k'),
      set: () => store.set('k', 'v', 1),
      delete: () => store.delete('k'),
      lease: () => store.lease('k', 1),
    }
    expect(await rejection(act[name]())).toBeInstanceOf(StoreFailure)
    expect(events).toEqual([{ type: 'store-failed', operation: name, code: 'ECONNREFUSED' }])
  })

  it('tells of a lease that could not be given back', async () => {
    const { inner, events, store } = made()
    inner.faults.release = FAILURES.throws
    const release = await store.lease('k', 1)
    expect(await rejection(Promise.resolve(release?.()))).toBeInstanceOf(StoreFailure)
    expect(events).toEqual([{ type: 'store-failed', operation: 'lease', code: 'ECONNREFUSED' }])
  })

  it('passes on nothing of the error', async () => {
    const { inner, store } = made()
    inner.faults.get = FAILURES.rejects
    const failure = await rejection(store.get('k'))
    expect([failure.message, failure.cause]).toEqual(['', undefined])
  })

  it.each([
    ['null', null],
    ['false', false],
    ['0', 0],
    ['an empty text', ''],
  ])('takes no lease for one where the store refuses it by %s', async (_, refusal) => {
    const { inner, store } = made()
    inner.faults.lease = answers(refusal)
    expect(await store.lease('k', 1).catch(() => undefined)).toBeUndefined()
  })

  it.each([
    [262_144, true],
    [262_145, false],
  ])('has no use for an entry beyond 256 KiB: %i characters', async (length, isOfUse) => {
    const { inner, events, store } = made()
    inner.put('k', 'x'.repeat(length), 1_000)
    expect((await store.get('k')) !== undefined).toBe(isOfUse)
    expect(events.length).toBe(isOfUse ? 0 : 1)
  })
})

describe('the code that is told', () => {
  it.each([
    [
      'ECONNREFUSED',
      Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:6379'), { code: 'ECONNREFUSED' }),
    ],
    ['READONLY', new Error("READONLY You can't write against a read only replica.")],
    ['OOM', new Error("OOM command not allowed when used memory > 'maxmemory'.")],
    ['CLUSTERDOWN', new Error('CLUSTERDOWN The cluster is down')],
    ['NOAUTH', new Error('NOAUTH')],
    ['ERR_STORE_2', { code: 'ERR_STORE_2' }],
    ['LOADING', { code: 'loading', message: 'LOADING Redis is loading the dataset in memory' }],
  ])('is %s', async (code, error) => {
    expect(await codeOf(error)).toBe(code)
  })

  it.each([
    ['a sentence', new Error('Socket closed unexpectedly')],
    ['capitals that go on', new Error('ABC-swordfish')],
    ['capitals before a colon', new Error('SWORDFISH: no')],
    ['capitals in the middle', new Error('the code is ECONNREFUSED')],
    ['capitals in another line', new Error('lost\nECONNREFUSED')],
    ['one letter', new Error('A store failed')],
    ['more than 40 capitals', new Error('A'.repeat(41))],
    ['a number', { code: 111 }],
    ['a text', 'ECONNREFUSED'],
    ['nothing', undefined],
    ['null', null],
  ])('is none where the error says %s', async (_, error) => {
    expect(await codeOf(error)).toBeUndefined()
  })

  it('is left out of the event where there is none', async () => {
    const { inner, events, store } = made()
    inner.faults.get = () => Promise.reject(undefined)
    await rejection(store.get('k'))
    expect(events.map((event) => Object.keys(event))).toEqual([['type', 'operation']])
  })
})
