// Many calls that leave or stay, with one signal, a signal each, or one cancelToken (contract 3.7).
import axios, { type CancelToken } from 'axios'
import { describe, expect, it } from 'vitest'
import { settled } from '../support/clock.ts'
import { CLIENTS, soon } from './body-calls.ts'
import { calls, crowd, expectSilence, LONG_MS, listeners, manyOf } from './signal-crowds.ts'
import { tell } from './told.ts'

const GROUP = 'Many calls at once'
const AXIOS = ['axios http', 'axios fetch'] as const

expectSilence()

describe('one signal of many waiting calls', { timeout: LONG_MS }, () => {
  it.for(CLIENTS)('ends them all when it is aborted: %s', async (column, { task }) => {
    const made = crowd(column)
    const many = manyOf(column)
    const abort = new AbortController()
    const { signal } = abort
    const reason = new Error('shutting down')
    const all = Promise.allSettled(Array.from({ length: many }, () => made.call({ signal })))
    await soon(() => made.endpoint.count === 1)
    await settled()
    abort.abort(reason)
    const ends = await all
    const reasons = new Set(ends.map((end) => (end.status === 'rejected' ? end.reason : 'resolved')))
    if (column === 'fetch') expect([...reasons]).toEqual([reason])
    else expect([...reasons].every(axios.isCancel)).toBe(true)
    expect(listeners(signal)).toBe(0)
    made.release()
    expect(await made.call()).toBe(200)
    expect(made.endpoint.count).toBe(1)
    const rejected = ends.filter(({ status }) => status === 'rejected').length
    expect(rejected).toBe(many)
    const cell = `${rejected} calls end; ${made.endpoint.count} token request, for the next`
    tell(task, { table: 'signals', group: GROUP, row: 'one signal, aborted in the wait', column, cell })
  })
})

describe('a signal for each of many calls', { timeout: LONG_MS }, () => {
  it.for(CLIENTS)('is left without a listener: %s', async (column, { task }) => {
    const made = crowd(column)
    const many = manyOf(column)
    const controllers = Array.from({ length: many }, () => new AbortController())
    const onAll = (): number => controllers.reduce((sum, { signal }) => sum + listeners(signal), 0)
    const statuses = calls(made, many, (nth) => ({ signal: controllers[nth]?.signal as AbortSignal }))
    await soon(() => made.endpoint.count === 1)
    await settled()
    const during = onAll()
    expect(during).toBe(many)
    made.release()
    expect(new Set(await statuses)).toEqual(new Set([200]))
    await settled()
    expect(onAll()).toBe(0)
    expect(made.endpoint.count).toBe(1)
    const cell = `${many} calls, ${made.endpoint.count} token request; ${during} listeners, then ${onAll()}`
    tell(task, { table: 'signals', group: GROUP, row: 'a signal each, no token yet', column, cell })
  })
})

const listening = (token: CancelToken): number =>
  (token as CancelToken & { readonly _listeners?: readonly unknown[] })._listeners?.length ?? 0

describe('one cancelToken for many calls', { timeout: LONG_MS }, () => {
  it.for(AXIOS)('is left without a listener: %s', async (column, { task }) => {
    const made = crowd(column)
    const many = manyOf(column)
    const { token } = axios.CancelToken.source()
    const statuses = calls(made, many, () => ({ cancelToken: token }))
    await soon(() => made.endpoint.count === 1)
    await settled()
    const during = listening(token)
    expect(during).toBe(many)
    made.release()
    expect(new Set(await statuses)).toEqual(new Set([200]))
    await settled()
    expect(listening(token)).toBe(0)
    expect(made.endpoint.count).toBe(1)
    const cell = `${many} calls, ${made.endpoint.count} token request; ${during} listeners, then ${listening(token)}`
    tell(task, { table: 'signals', group: GROUP, row: 'one cancelToken, no token yet', column, cell })
  })
})
