/** The faults of the sandbox on real sockets, with the injected clock. */
import { createTokenProvider, type TokenProvider, type TokenProviderOptions } from 'merchant-auth'
import { type Fault, type Sandbox, startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ManualClock, settled } from '../support/clock.ts'
import { rejection } from '../token/harness.ts'
import { record } from './cells.ts'
import {
  bringTo,
  COLD,
  EXPIRED,
  isOver,
  outcomeOf,
  RECOVERY,
  requestsOf,
  TABLE,
  WINDOW,
} from './token-words.ts'

const GROUP = 'on real sockets'
const TIMEOUT_MS = 10_000
const MOST_TURNS = 20_000

/** Where a request hangs: before the headers of the answer, or after them. */
type Hangs = 'headers' | 'body' | undefined

interface Row {
  readonly row: string
  readonly fault: Fault | 'closed'
  readonly hangs?: Hangs
  readonly outcome: string
  readonly requests: number
}

const TIMED_OUT = { outcome: 'TokenRequestError, ERR_TOKEN_TIMEOUT', requests: 2 }
const BAD_BODY = { outcome: 'TokenResponseError, body', requests: 1 }

const ROWS: readonly Row[] = [
  { row: 'hang at the headers', fault: { kind: 'hang' }, hangs: 'headers', ...TIMED_OUT },
  { row: 'hang in the body', fault: { kind: 'hang', at: 'body' }, hangs: 'body', ...TIMED_OUT },
  {
    row: 'body slower than timeoutMs',
    fault: { kind: 'slow-body', durationMs: 1e9 },
    hangs: 'body',
    ...TIMED_OUT,
  },
  {
    row: 'slow body within timeoutMs',
    fault: { kind: 'slow-body', durationMs: 40 },
    outcome: 'token',
    requests: 1,
  },
  {
    row: 'connection reset',
    fault: { kind: 'reset' },
    outcome: 'TokenRequestError, ERR_TOKEN_NETWORK',
    requests: 3,
  },
  {
    row: 'connection refused',
    fault: 'closed',
    outcome: 'TokenRequestError, ERR_TOKEN_NETWORK',
    requests: 3,
  },
  {
    row: 'truncated body',
    fault: { kind: 'truncated-body' },
    outcome: 'TokenRequestError, ERR_TOKEN_NETWORK',
    requests: 3,
  },
  { row: 'body of 10 MiB', fault: { kind: 'huge-body' }, ...BAD_BODY },
  { row: 'body of 10 MiB, gzip', fault: { kind: 'huge-body', gzip: true }, ...BAD_BODY },
  { row: 'body of 1 GiB, gzip', fault: { kind: 'huge-body', gzip: true, bytes: 2 ** 30 }, ...BAD_BODY },
  {
    row: 'other JSON',
    fault: { kind: 'json', body: { status: 'ok' } },
    outcome: 'TokenResponseError, access_token, expires_in, token_type',
    requests: 1,
  },
  { row: 'HTML', fault: { kind: 'text', body: '<h1>Hello</h1>', contentType: 'text/html' }, ...BAD_BODY },
  {
    row: 'status 503',
    fault: { kind: 'status', status: 503 },
    outcome: 'TokenRequestError, 503',
    requests: 3,
  },
  {
    row: 'status 401, invalid_client',
    fault: { kind: 'status', status: 401, body: { error: 'invalid_client' } },
    outcome: 'TokenRequestError, 401, invalid_client',
    requests: 1,
  },
]

let sandbox: Sandbox
beforeEach(async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0) // pauses of 0 ms
  sandbox = await startSandbox()
  sandbox.test.configure({ lifetimeSeconds: 1_000 })
})
afterEach(async () => {
  vi.restoreAllMocks()
  await sandbox.close()
})

/** A provider for the sandbox, on a clock that advances only while a request hangs at the expected place. */
class SocketRig {
  readonly clock = new ManualClock()
  readonly provider: TokenProvider
  sent = 0
  #answered = 0
  #over = 0

  constructor(options: Partial<TokenProviderOptions> = {}) {
    const { environment, clientId, clientSecret } = sandbox.test
    this.provider = createTokenProvider({
      environment,
      clientId,
      clientSecret,
      clock: this.clock,
      timeoutMs: TIMEOUT_MS,
      onEvent: (event) => {
        if (isOver(event)) this.#over += 1
      },
      fetch: async (url, init) => {
        this.sent += 1
        const response = await fetch(url, init)
        this.#answered += 1
        return response
      },
      ...options,
    } as TokenProviderOptions)
  }

  /** Lets sockets proceed, and the clock while a request hangs, until the token request that `start` causes is over. */
  async drive(hangs: Hangs, start: () => void | Promise<void>): Promise<{ requests: number; ms: number }> {
    const before = { sent: this.sent, over: this.#over, at: this.clock.monotonicMs() }
    let passed = this.#hanging(hangs)
    await start()
    for (let turn = 0; this.#over === before.over && turn < MOST_TURNS; turn += 1) {
      await this.clock.advance(0)
      if (this.#hanging(hangs) > passed) {
        passed += 1
        await this.clock.advance(TIMEOUT_MS / 2)
      }
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await settled()
    return { requests: this.sent - before.sent, ms: this.clock.monotonicMs() - before.at }
  }

  #hanging(where: Hangs): number {
    if (where === undefined) return 0
    return where === 'body' ? this.#answered : sandbox.test.counts.token
  }
}

async function causeFault(fault: Row['fault']): Promise<void> {
  if (fault === 'closed') await sandbox.close()
  else sandbox.test.fail('token', fault, { times: Infinity })
}

describe.for([COLD, EXPIRED])('a sandbox fault, token cache %s', (column) => {
  it.for(ROWS)(
    'gives a call "$outcome": $row',
    async ({ row, fault, hangs, outcome, requests }, { task }) => {
      const rig = new SocketRig()
      const { provider, clock } = rig
      await bringTo(column, rig)
      await causeFault(fault)
      const call = provider.getToken().then(() => 'token', outcomeOf)
      const seen = await rig.drive(hangs, () => {})
      expect({ outcome: await call, ...seen }).toEqual({
        outcome,
        requests,
        ms: hangs === undefined ? 0 : TIMEOUT_MS,
      })
      const cell = `${await call}; ${requestsOf(seen.requests)}, within timeoutMs`
      record(task, { table: TABLE, group: GROUP, row, column, cell })
      if (outcome === 'token' || fault === 'closed') return
      sandbox.test.clearFaults()
      await clock.advance(999)
      await expect(provider.getToken()).rejects.toMatchObject({ retryAfterMs: 1 })
      await clock.advance(1)
      await provider.getToken()
      expect(rig.sent, 'all requests').toBe((column === COLD ? 0 : 1) + requests + 1)
      record(task, { table: TABLE, group: GROUP, row, column: RECOVERY, cell: 'after 1 s' })
    },
  )
})

describe('a sandbox fault inside the refresh window', () => {
  it.for(ROWS)('leaves callers the current token: $row', async ({ row, fault, hangs, outcome }, { task }) => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const rig = new SocketRig()
    const { provider, clock } = rig
    const first = await bringTo(WINDOW, rig)
    await causeFault(fault)
    const seen = await rig.drive(hangs, async () => {
      expect((await provider.getToken()).value, 'the current token').toBe(first?.value)
    })
    expect(seen).toEqual({ requests: 1, ms: hangs === undefined ? 0 : TIMEOUT_MS / 2 })
    if (outcome !== 'token') expect((await provider.getToken()).value).toBe(first?.value)
    if (outcome !== 'token' && fault !== 'closed') {
      sandbox.test.clearFaults()
      await clock.advance(20_000) // more than a quarter of the remaining lifetime
      await rig.drive(undefined, () => void provider.currentToken())
    }
    if (fault !== 'closed') expect((await provider.getToken()).value, 'a new token').not.toBe(first?.value)
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
    const cell = `current token at once; ${requestsOf(seen.requests)} behind it`
    record(task, { table: TABLE, group: GROUP, row, column: WINDOW, cell })
  })
})

describe('a redirect of the token request to another host', () => {
  it.for([301, 302, 303, 307, 308])('with status %i is not followed', async (status, { task }) => {
    const elsewhere = `${sandbox.production.environment.authUrl}/oauth/token`
    sandbox.test.fail('token', { kind: 'redirect', location: elsewhere, status })
    const rig = new SocketRig()
    const outcome = outcomeOf(await rejection(rig.provider.getToken()))
    expect(outcome).toBe(`TokenRequestError, ${status}`)
    expect(sandbox.production.requests()).toEqual([])
    const cell = `${outcome}; ${requestsOf(rig.sent)}, none at the other host`
    expect(rig.sent).toBe(1)
    record(task, { table: TABLE, group: GROUP, row: `redirect ${status}`, column: COLD, cell })
  })
})

describe('on the system clock', () => {
  it.for(ROWS.filter(({ hangs }) => hangs))(
    'a token request times out: $row',
    async ({ row, fault, outcome }, { task }) => {
      await causeFault(fault)
      const { provider } = new SocketRig({ clock: undefined, timeoutMs: 200 })
      const got = outcomeOf(await rejection(provider.getToken()))
      expect(got).toBe(outcome)
      const group = 'on real sockets and the system clock, timeoutMs 200'
      record(task, { table: TABLE, group, row, column: COLD, cell: `${got}; ended by itself` })
    },
  )
})
