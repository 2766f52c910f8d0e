import { createHook } from 'node:async_hooks'
import { getEventListeners } from 'node:events'
import { createTokenProvider } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { systemClock as clock } from '../../src/base/clock.ts'
import { settled } from '../support/clock.ts'
import { runProgram } from '../support/program.ts'
import { ENVIRONMENT, rejection, SECRET } from '../token/harness.ts'

describe('the system clock', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] }))
  afterEach(() => void vi.useRealTimers())

  it('reads both clocks at each use', () => {
    const before = [clock.monotonicMs(), clock.epochMs()]
    vi.advanceTimersByTime(1_500)
    expect([clock.monotonicMs() - Number(before[0]), clock.epochMs() - Number(before[1])]).toEqual([
      1_500, 1_500,
    ])
  })

  it('sleeps in real time, which no fake timer moves, and leaves no listener', async () => {
    const { signal } = new AbortController()
    const woken = vi.fn()
    const abort = new AbortController()
    clock.sleep(60_000, abort.signal).then(woken, () => {})
    await vi.advanceTimersByTimeAsync(1_000_000)
    expect(woken).not.toHaveBeenCalled()
    abort.abort()
    await clock.sleep(1, signal)
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })

  it('rejects with the reason of the signal, and leaves no timer', async () => {
    const timers = new Set<number>()
    const init = (id: number, type: string): unknown => type === 'Timeout' && timers.add(id)
    const hook = createHook({ init, destroy: (id) => void timers.delete(id) }).enable()
    onTestFinished(() => void hook.disable())
    const abort = new AbortController()
    const sleep = expect(clock.sleep(60_000, abort.signal)).rejects.toBe('woken')
    expect(timers.size).toBe(1)
    abort.abort('woken')
    await sleep
    await expect(clock.sleep(60_000, abort.signal)).rejects.toBe('woken')
    await settled()
    expect(timers.size).toBe(0)
  })

  it('does not return immediately from a sleep that is longer than a timer supports', async () => {
    const woken = vi.fn()
    const abort = new AbortController()
    clock.sleep(2 ** 31 + 5, abort.signal).then(woken, () => {})
    await clock.sleep(5)
    expect(woken).not.toHaveBeenCalled()
    abort.abort()
  })
})

it('a test that fakes time ends no token request, and no run, and takes no time from a retry or an error body', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  vi.spyOn(Math, 'random').mockReturnValue(0) // retries at once
  const unavailable = Promise.withResolvers<Response>()
  const answers = [
    unavailable.promise,
    Promise.resolve(Response.json({ error: 'invalid_client' }, { status: 400 })),
  ]
  const fetch = vi.fn(() => answers.shift() as Promise<Response>)
  const tokens = createTokenProvider({ environment: ENVIRONMENT, clientId: 'c', clientSecret: SECRET, fetch })
  const first = rejection(tokens.getToken())
  await settled()
  await vi.advanceTimersByTimeAsync(30_000)
  const second = rejection(tokens.getToken())
  await settled()
  expect(fetch).toHaveBeenCalledTimes(1)
  unavailable.resolve(new Response(null, { status: 503 }))
  expect(await Promise.all([first, second])).toMatchObject(
    Array(2).fill({ error: 'invalid_client', attempts: 2 }),
  )
})

describe('a process that stands still until the time of its token request is over', () => {
  it('uses a token that has arrived meanwhile', async () => {
    const { said, code } = await runProgram(`
      import { Worker } from 'node:worker_threads'
      const [RECEIVED, STANDS_STILL, ANSWERED, PORT] = [0, 1, 2, 3]
      const flags = new Int32Array(new SharedArrayBuffer(16))
      const server = (flags) => {
        const set = (flag, value) => { Atomics.store(flags, flag, value); Atomics.notify(flags, flag) }
        const grant = JSON.stringify({ access_token: 'a.b.c', expires_in: 100, token_type: 'Bearer' })
        require('node:http').createServer((_, response) => {
          set(0, 1)
          Atomics.wait(flags, 1, 0)
          response.end(grant, () => set(2, 1))
        }).listen(0, '127.0.0.1', function () { set(3, this.address().port) })
      }
      new Worker('(' + server + ')(require("node:worker_threads").workerData)', { eval: true, execArgv: [], workerData: flags })
      Atomics.wait(flags, PORT, 0)
      const url = 'http://127.0.0.1:' + flags[PORT]
      const said = []
      const timeoutMs = 2_000
      const tokens = createTokenProvider({
        environment: { authUrl: url, audience: 'a', apiUrls: [url] },
        clientId: 'c', clientSecret: 'made-up-secret', timeoutMs, onEvent: ({ type }) => said.push(type),
      })
      const waiting = tokens.getToken()
      while (flags[RECEIVED] === 0) await new Promise(setImmediate)
      Atomics.store(flags, STANDS_STILL, 1)
      Atomics.notify(flags, STANDS_STILL)
      Atomics.wait(flags, ANSWERED, 0)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, timeoutMs + 500)
      console.log((await waiting).value, said.join())
      process.exit()
    `)
    expect({ said, code }).toEqual({ said: 'a.b.c token-requested,token-acquired', code: 0 })
  })

  it('sends no second request before the first one has ended', async () => {
    const { said, code } = await runProgram(`
      import { createServer } from 'node:http'
      const server = createServer(() => {}).listen(0, '127.0.0.1')
      await new Promise((resolve) => server.once('listening', resolve))
      const url = 'http://127.0.0.1:' + server.address().port
      const said = []
      const timeoutMs = 1_000
      const tokens = createTokenProvider({
        environment: { authUrl: url, audience: 'a', apiUrls: [url] },
        clientId: 'c', clientSecret: 'made-up-secret', timeoutMs, retries: 0, onEvent: ({ type }) => said.push(type),
      })
      const waiting = tokens.getToken().catch(({ code }) => code)
      await new Promise((resolve) => server.once('request', resolve))
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, timeoutMs + 700)
      console.log(await waiting, said.join())
      process.exit()
    `)
    expect({ said, code }).toEqual({
      said: 'ERR_TOKEN_TIMEOUT token-requested,token-request-failed',
      code: 0,
    })
  })
})
