/**
 * One service, one token, 600 calls: what happens while tokens expire, get revoked, and the token endpoint fails.
 *
 * npm run demo
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { styleText } from 'node:util'
import axios, { isAxiosError } from 'axios'
import {
  type AuthEvent,
  createAuthFetch,
  createTokenProvider,
  type RenewalSuppressedEvent,
  type TokenRequestFailedEvent,
} from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { type Fault, startSandbox } from 'merchant-auth/testing'

const WAVES = 60
const WAVE_EVERY_MS = 180
/** With more calls in flight, on a busy machine, the next ones wait, rather than taking longer than a token lives. */
const MOST_IN_FLIGHT = 50
const LIFETIME_SECONDS = 3

/** A token of 3 s is renewed at the earliest 600 ms (20 %) before the last 150 ms (5 %) of its life. */
const SHORTEST_RENEWAL_MS = LIFETIME_SECONDS * 1000 * (1 - 0.05 - 0.2)

interface Disturbance {
  readonly atMs: number
  readonly text: string
  readonly revokes?: boolean
  readonly fault?: Fault
}

const DISTURBANCES: readonly Disturbance[] = [
  { atMs: 1_300, text: 'the service revokes the token', revokes: true },
  {
    atMs: 2_700,
    text: 'the token endpoint will fail once: status 503',
    fault: { kind: 'status', status: 503 },
  },
  { atMs: 4_900, text: 'the service revokes the token', revokes: true },
  { atMs: 5_600, text: 'the token endpoint will fail once: connection reset', fault: { kind: 'reset' } },
  {
    atMs: 8_600,
    text: 'the service revokes the token, and the token endpoint will fail once: status 503',
    revokes: true,
    fault: { kind: 'status', status: 503 },
  },
]

// What is shown: lines as things happen and, on a terminal, one more line that is kept up to date.

const { stdout } = process
const startedAt = performance.now()
const elapsedMs = (): number => performance.now() - startedAt
const tally = { started: 0, done: 0, failed: 0, unauthorized: 0, renewals: 0, rejections: 0, slowestMs: 0 }

function showStatus(): void {
  if (!stdout.isTTY) return
  const { done, failed } = tally
  const status = `${seconds(elapsedMs())}  ${done}/${WAVES * 10} calls, ${failed} failed, ${sandbox.test.counts.token} token requests`
  stdout.write(`\r\x1b[2K${status.slice(0, stdout.columns - 1)}`)
}

function say(line: string): void {
  if (stdout.isTTY) stdout.write('\r\x1b[2K')
  stdout.write(`${seconds(elapsedMs())}  ${line}\n`)
  showStatus()
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2).padStart(5)} s`
}

function inWords(event: AuthEvent): string {
  switch (event.type) {
    case 'token-requested':
      return event.attempt === 1 ? 'token requested' : `token requested, attempt ${event.attempt}`
    case 'token-acquired':
      return `token acquired after ${Math.round(event.durationMs)} ms, valid for ${event.lifetimeMs / 1000} s`
    case 'token-request-failed': {
      const why = event.status === undefined ? event.code : `status ${event.status}`
      return styleText('yellow', `the token endpoint failed (${why}): ${nextStep(event)}`)
    }
    case 'token-rejected':
      return styleText('yellow', `${apiName(event.api)} rejected the token`)
    case 'token-renewed':
      return event.reason === 'expiring'
        ? 'token renewed in the background, before it expired'
        : `token renewed after ${tally.rejections} rejected calls, which are repeated`
    case 'renewal-suppressed':
      return styleText(
        'red',
        `${apiName(event.api)} rejected ${event.method} ${event.url}: ${notRenewed(event)}`,
      )
    case 'token-withheld':
      return styleText('red', `a call was sent without the token (${event.reason}): ${event.url}`)
    case 'store-failed':
      return styleText('red', `the token store failed at ${event.operation}`)
  }
}

function notRenewed({ reason, nextRenewalMs }: RenewalSuppressedEvent): string {
  return reason === 'accepted'
    ? 'only this call, so no renewal'
    : `no renewal before ${nextRenewalMs} ms (${reason})`
}

/** A background renewal makes one attempt. Its next one would come seconds later, which is too late for these tokens. */
function nextStep({ nextTryMs }: TokenRequestFailedEvent): string {
  if (nextTryMs !== undefined) return `next attempt in ${Math.round(nextTryMs)} ms`
  if (tokens.currentToken() === undefined) return 'no further attempt'
  return 'calls use the current token to its end, and then wait for the next one'
}

function apiName(api: string | undefined): string {
  if (api === undefined) return 'an API'
  return api === 'inStore' ? 'the in-store API' : 'the merchant API'
}

// The service that is called, and the service that calls: one provider for three clients.

const sandbox = await startSandbox()
const { environment, clientId, clientSecret, merchantUrl, inStoreUrl } = sandbox.test
sandbox.test.configure({
  lifetimeSeconds: LIFETIME_SECONDS,
  tokenLatencyMs: 40,
  apiLatencyMs: () => 10 + Math.random() * 90,
})

const tokens = createTokenProvider({
  environment,
  clientId,
  clientSecret,
  onEvent: (event) => {
    if (event.type === 'token-renewed') tally.renewals += 1
    if (event.type === 'token-rejected') tally.rejections += 1
    if (event.type !== 'token-rejected' || tally.rejections === 1) say(inWords(event)) // one line stands for all
    if (event.type === 'token-renewed') tally.rejections = 0
  },
})
const merchant = axios.create({ baseURL: merchantUrl })
const inStore = axios.create({ baseURL: inStoreUrl })
attachAuth(merchant, tokens)
attachAuth(inStore, tokens)
const authFetch = createAuthFetch(tokens)

const clients: readonly ((id: number) => Promise<{ readonly status: number }>)[] = [
  (id) => merchant.get(`/orders/${id}`),
  (id) => inStore.post('/sales', { id }),
  (id) => authFetch(`${merchantUrl}/refunds/${id}`, { method: 'PUT', body: `refund ${id}` }),
]

async function call(id: number): Promise<void> {
  const callAt = performance.now()
  tally.started += 1
  try {
    const { status } = await (clients[id % clients.length] as (typeof clients)[0])(id)
    if (status !== 200) failed(`call ${id} got status ${status}`, status)
  } catch (error) {
    failed(`call ${id} failed: ${error}`, isAxiosError(error) ? error.response?.status : undefined)
  }
  tally.done += 1
  tally.slowestMs = Math.max(tally.slowestMs, performance.now() - callAt)
}

function failed(text: string, status: number | undefined): void {
  tally.failed += 1
  if (status === 401) tally.unauthorized += 1
  say(styleText('red', text))
}

function disturb({ text, revokes, fault }: Disturbance): void {
  say(styleText('cyan', text))
  if (fault !== undefined) sandbox.test.fail('token', fault)
  // Only the cached one: a call is repeated once.
  if (revokes) sandbox.test.revoke(tokens.currentToken()?.value ?? 'none')
}

stdout.on('error', () => process.exit(1)) // nobody reads on, as with `npm run demo | head`
process.once('SIGINT', () => {
  stdout.write('\nStopped.\n')
  process.exit(130)
})

stdout.write(
  `${WAVES * 10} calls by two axios instances and a fetch that share one provider; tokens live ${LIFETIME_SECONDS} s.\n\n`,
)
const calls: Promise<void>[] = []
const left = [...DISTURBANCES]
const firstCallAt = elapsedMs()
for (let wave = 0; wave < WAVES; wave += 1) {
  await sleep(Math.max(0, firstCallAt + wave * WAVE_EVERY_MS - elapsedMs()))
  while (tally.started - tally.done > MOST_IN_FLIGHT) await sleep(10)
  for (let next = left[0]; next !== undefined && next.atMs <= elapsedMs(); next = left[0]) {
    disturb(next)
    left.shift()
  }
  for (let id = wave * 10; id < wave * 10 + 10; id += 1) calls.push(call(id))
  if (stdout.isTTY) showStatus()
  else if (wave % 10 === 9) say(`${tally.started} calls made`)
}
await Promise.all(calls)
const durationMs = elapsedMs() - firstCallAt
if (stdout.isTTY) stdout.write('\r\x1b[2K')

// What came of it.

const { counts } = sandbox.test
const revocations = DISTURBANCES.filter(({ revokes }) => revokes).length
const failures = sandbox.test.requests('token').filter(({ fault }) => fault !== undefined).length
const most = 1 + revocations + failures + Math.ceil(durationMs / SHORTEST_RENEWAL_MS)
const rows: readonly (readonly [string, number | string, string])[] = [
  ['calls', tally.done, `in ${(durationMs / 1000).toFixed(1)} s`],
  ['failed calls', tally.failed, ''],
  ['401s seen by callers', tally.unauthorized, `of ${counts.unauthorized} that the APIs answered`],
  ['token requests', counts.token, `at most ${most} were needed; ${failures} were made to fail`],
  ['renewals', tally.renewals, `${revocations} tokens were revoked`],
  ['slowest call', `${Math.round(tally.slowestMs)} ms`, ''],
]
stdout.write('\n')
for (const [what, value, note] of rows) {
  stdout.write(`${`${what.padEnd(22)}${String(value).padStart(8)}   ${note}`.trimEnd()}\n`)
}
await tokens.close()
await sandbox.close()

const problems = [
  tally.done === WAVES * 10 ? undefined : 'not every call was made',
  tally.failed === 0 ? undefined : 'a call failed',
  tally.unauthorized === 0 ? undefined : 'a caller saw a 401',
  counts.token <= most ? undefined : 'there were more token requests than needed',
].filter((problem) => problem !== undefined)
stdout.write(problems.length === 0 ? '\nAll is well.\n' : `\nNot well: ${problems.join('; ')}.\n`)
process.exitCode = problems.length === 0 ? 0 : 1
