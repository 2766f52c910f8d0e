/** A token endpoint that does not answer or answers late, and a client secret that cannot be obtained. */
import { TokenRequestError } from 'merchant-auth'
import { expect, it } from 'vitest'
import type { ManualClock } from '../support/clock.ts'
import {
  breaksOff,
  deaf,
  granted,
  hang,
  noConnection,
  rejection,
  rig,
  SECRET,
  status,
} from '../token/harness.ts'
import { type TokenFault, tryFaults } from './token-rig.ts'

/** Three attempts with pauses of at most 200 and 400 ms; one attempt in the background. */
const THREE_ATTEMPTS = {
  requests: 3,
  ms: 600,
  background: { requests: 1, ms: 0 },
  firstSuccessMs: 1_000,
}
/** timeoutMs is 10 s, of which one attempt gets 5 s. */
const HANGS = {
  requests: 2,
  ms: 10_000,
  background: { requests: 1, ms: 5_000 },
  firstSuccessMs: 1_000,
}

tryFaults('no answer', { outcome: 'TokenRequestError, ERR_TOKEN_NETWORK', ...THREE_ATTEMPTS }, [
  ['no connection', { answer: noConnection }],
  ['a truncated token response', { answer: breaksOff() }],
  ['fetch rejects with a string', { answer: () => Promise.reject('offline') }],
])

const endless = (code: number) => (): Response => new Response(new ReadableStream(), { status: code })

tryFaults('no answer', { outcome: 'TokenRequestError, ERR_TOKEN_TIMEOUT', ...HANGS }, [
  ['hangs at the headers', { answer: hang }],
  ['hangs in the body', { answer: endless(200) }],
  ['fetch ignores the signal', { answer: deaf }],
])

/** Answers after `ms` on the clock and ignores the signal. */
const slow =
  (ms: number, answer = granted()): NonNullable<TokenFault['answer']> =>
  async (init: RequestInit, clock: ManualClock) => {
    await clock.sleep(ms)
    return await answer(init)
  }

tryFaults('late answers', { outcome: 'token for 1000 s', requests: 1, ms: 4_900 }, [
  ['a token after 4.9 s', { answer: slow(4_900) }],
])
tryFaults('late answers', { outcome: 'TokenRequestError, ERR_TOKEN_TIMEOUT', ...HANGS }, [
  ['a token after 7 s', { answer: slow(7_000) }],
  ['503 after 7 s', { answer: slow(7_000, status(503)) }],
])

const NO_REQUESTS = { outcome: 'TokenRequestError, ERR_CLIENT_SECRET', requests: 0, firstSuccessMs: 1_000 }
tryFaults('the clientSecret function', { ...NO_REQUESTS, ms: 600, background: { requests: 0, ms: 0 } }, [
  [
    'throws',
    {
      clientSecret: () => {
        throw new Error('the vault is shut')
      },
    },
  ],
  ['rejects', { clientSecret: () => Promise.reject(new Error('the vault is shut')) }],
  ['yields undefined', { clientSecret: () => undefined }],
  ['yields an empty string', { clientSecret: () => Promise.resolve('') }],
  ['yields a number', { clientSecret: () => 5 }],
])
tryFaults(
  'the clientSecret function',
  { ...NO_REQUESTS, ms: 10_000, background: { requests: 0, ms: 5_000 } },
  [['hangs', { clientSecret: () => new Promise(() => {}) }]],
)

const rejection401 = status(401, { error: 'invalid_client' })
const REJECTED = { outcome: 'TokenRequestError, 401, invalid_client', ms: 0, firstSuccessMs: 1_000 }
let asked = 0
tryFaults('the clientSecret function', { ...REJECTED, requests: 1 }, [
  ['yields the rejected secret again', { answer: rejection401, clientSecret: () => SECRET }],
])
tryFaults('the clientSecret function', { ...REJECTED, requests: 2 }, [
  [
    'yields another secret, which is rejected too',
    {
      answer: rejection401,
      clientSecret: () => {
        asked += 1
        return `another-secret-${asked}`
      },
    },
  ],
])

it('a fetch that resolves without a response rejects each caller with an error of its own', async () => {
  const { provider } = rig([() => undefined as unknown as Response], { retries: 0 })
  const errors = await Promise.all([rejection(provider.getToken()), rejection(provider.getToken())])
  for (const error of errors) expect(error).toBeInstanceOf(TokenRequestError)
  expect(new Set(errors).size).toBe(2)
})
