/** Faults of the token endpoint on real sockets: what callers get, what that costs, and that calls succeed afterwards. */
import {
  createTokenProvider,
  type TokenProvider,
  type TokenProviderOptions,
  TokenRequestError,
  TokenResponseError,
} from 'merchant-auth'
import { type Fault, type Sandbox, startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { MAX_ANSWER_BYTES } from '../../src/token/request/token-response.ts'
import { StandingClock } from '../support/clock.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { rejection, unhandledRejections, withoutJitter } from '../token/harness.ts'

withoutJitter()

/** Time limits are for the busiest machine, but for those that must expire: while `expires` is set. */
class LimitClock extends StandingClock {
  expires = false
  override readonly sleep: StandingClock['sleep'] = (ms, signal) =>
    systemClock.sleep(this.expires ? 200 : ms, signal)
}

let sandbox: Sandbox
let clock: LimitClock
let failures: number
beforeEach(async () => {
  sandbox = await startSandbox()
  sandbox.test.configure({ lifetimeSeconds: 1_000 })
  clock = new LimitClock()
  failures = 0
})
afterEach(() => sandbox.close())

function provider(): TokenProvider {
  const { environment, clientId, clientSecret } = sandbox.test
  const onEvent: TokenProviderOptions['onEvent'] = (event) => {
    if (event.type === 'token-request-failed' && event.nextTryMs === undefined) failures += 1
  }
  return createTokenProvider({
    ...{ environment, clientId, clientSecret, clock, onEvent },
    timeoutMs: PATIENCE_MS,
    retries: 2,
  })
}

interface Row {
  readonly name: string
  readonly fault: Fault
  /** The code of the error, and what else it says. */
  readonly error: object
  /** The token requests of a call that waits. */
  readonly requests: number
  /** Whether time limits expire. */
  readonly expires?: boolean
}

const unread = (reason: RegExp) => ({
  code: 'ERR_TOKEN_RESPONSE',
  issues: [{ field: 'body', reason: expect.stringMatching(reason) }],
})
const NETWORK = { error: { code: 'ERR_TOKEN_NETWORK' }, requests: 3 }
/** The clock stands still, so that every attempt has time. */
const TIMEOUT = { error: { code: 'ERR_TOKEN_TIMEOUT' }, requests: 3, expires: true }
const TOO_LONG = { error: unread(new RegExp(`longer than ${MAX_ANSWER_BYTES} bytes`)), requests: 1 }

const ROWS: readonly Row[] = [
  { name: 'a connection that is reset', fault: { kind: 'reset' }, ...NETWORK },
  { name: 'a body that breaks off', fault: { kind: 'truncated-body' }, ...NETWORK },
  { name: 'no headers', fault: { kind: 'hang' }, ...TIMEOUT },
  { name: 'a body that never ends', fault: { kind: 'hang', at: 'body' }, ...TIMEOUT },
  { name: 'a slow body', fault: { kind: 'slow-body', durationMs: 1e9 }, ...TIMEOUT },
  { name: 'a body of 10 MiB', fault: { kind: 'huge-body' }, ...TOO_LONG },
  {
    name: 'a compressed body of 1 GiB',
    fault: { kind: 'huge-body', gzip: true, bytes: 2 ** 30 },
    ...TOO_LONG,
  },
  { name: 'HTML', fault: { kind: 'text', body: '<h1>Hello</h1>' }, error: unread(/JSON/), requests: 1 },
  {
    name: 'status 503',
    fault: { kind: 'status', status: 503 },
    error: { code: 'ERR_TOKEN_STATUS', status: 503, attempts: 3, retryable: true },
    requests: 3,
  },
  {
    name: 'a rejected secret',
    fault: { kind: 'status', status: 401, body: { error: 'invalid_client' } },
    error: { code: 'ERR_TOKEN_STATUS', status: 401, error: 'invalid_client', retryable: false },
    requests: 1,
  },
]

describe.for(ROWS)(
  'a token endpoint that answers with $name',
  ({ fault, error, requests, expires = false }) => {
    it('rejects a call without a token, and the next call after the cooldown gets one', async () => {
      const tokens = provider()
      sandbox.test.fail('token', fault, { times: Infinity })
      clock.expires = expires
      const failure = await rejection<TokenRequestError>(tokens.getToken())
      expect(failure).toBeInstanceOf('issues' in error ? TokenResponseError : TokenRequestError)
      expect(failure).toMatchObject(error)
      expect(sandbox.test.counts.token).toBe(requests)
      sandbox.test.clearFaults()
      clock.expires = false
      clock.advance(Number(failure.retryAfterMs) - 1)
      expect(await rejection(tokens.getToken())).toMatchObject({ retryAfterMs: 1 })
      expect(sandbox.test.counts.token).toBe(requests)
      clock.advance(1)
      await tokens.getToken()
      expect(sandbox.test.counts.token).toBe(requests + 1)
    })

    it('is asked once by a background renewal, and callers keep the current token', async () => {
      const unhandled = unhandledRejections()
      const tokens = provider()
      const first = await tokens.getToken()
      clock.advance(900_000)
      sandbox.test.fail('token', fault, { times: Infinity })
      clock.expires = expires
      expect(await tokens.getToken()).toBe(first)
      await vi.waitFor(() => expect(failures).toBe(1), { timeout: PATIENCE_MS })
      expect(await tokens.getToken()).toBe(first)
      expect(sandbox.test.counts.token).toBe(2)
      expect(await unhandled()).toBe(0)
    })
  },
)

it('a refused connection is tried three times', async () => {
  const tokens = provider()
  await sandbox.close()
  expect(await rejection(tokens.getToken())).toMatchObject({ code: 'ERR_TOKEN_NETWORK', attempts: 3 })
})

it.for([301, 302, 303, 307, 308])('a redirect to another host (%i) is not followed', async (status) => {
  const location = `${sandbox.production.environment.authUrl}/oauth/token`
  sandbox.test.fail('token', { kind: 'redirect', location, status })
  expect(await rejection(provider().getToken())).toMatchObject({ code: 'ERR_TOKEN_REDIRECT', status })
  expect(sandbox.test.counts.token).toBe(1)
  expect(sandbox.production.requests()).toEqual([])
})
