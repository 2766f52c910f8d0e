/** The step `call` of `check`: a call of an API with the token, or two: one shows what the 401 of the other is about. */
import { CALLS, callAdviceOf } from '../advice/calls.ts'
import type { OAuthError } from '../advice/refusals.ts'
import { redactedCause, shownUrl } from '../base/redact.ts'
import { parseUrl } from '../base/urls.ts'
import type { Destinations } from '../environment/destinations.ts'
import { readOAuthError } from '../token/request/token-response.ts'
import type { CommandContext } from './command.ts'
import { watchConnection } from './connection.ts'
import { diagnoseNetwork, diagnoseTimeout } from './diagnosis.ts'
import type { Finding, Report } from './report.ts'
import type { Redactor } from './terminal.ts'

const DEFAULT_TIMEOUT_MS = 10_000

export interface CallsContext extends Pick<CommandContext, 'env' | 'signal'> {
  /** A fetch that attaches the token. */
  readonly authFetch: typeof fetch
  readonly timeoutMs?: number | undefined
  readonly destinations: Destinations
  readonly redactor: Redactor
  readonly report: Report
}

/** A call that was made. */
interface Call {
  readonly url: string
  /** `GET`, and the URL without its query. */
  readonly name: string
  readonly finding: Finding
}

/** Calls each URL once: a new token would be rejected for the same reason. Resolves with whether every call succeeded. */
export async function checkCalls(urls: readonly string[], context: CallsContext): Promise<boolean> {
  const { redactor, report } = context
  const calls: Call[] = []
  for (const url of urls) {
    const name = `GET ${redactor.show(shownUrl(url))}`
    const found = await callApi(url, context)
    const finding = { ...found, text: `${name} ${found.text}` }
    calls.push({ url, name, finding })
    // Of two calls, the verdict has the advice.
    const isJudged = urls.length > 1 && isRejected(finding)
    report.add(isJudged ? { ...finding, advice: undefined } : finding)
  }
  const verdict = await verdictOn(calls, context)
  if (verdict !== undefined) report.add(verdict)
  return calls.every(({ finding }) => finding.result !== 'failed')
}

function isRejected({ status }: Finding): boolean {
  return status === 401
}

/** What a 401 of one of two calls is about; undefined if there are not two, or none got a 401. */
async function verdictOn(calls: readonly Call[], context: CallsContext): Promise<Finding | undefined> {
  const rejected = calls.find(({ finding }) => isRejected(finding))
  const other = calls.find((call) => call !== rejected)
  if (rejected === undefined || other === undefined) return undefined
  const { name, finding, url } = other
  const verdict = (about: 'call' | 'token' | 'unknown', why: string): Finding => {
    const isKnown = about !== 'unknown'
    const what = isKnown
      ? `the 401 is about the ${about}`
      : 'it cannot be told whether the 401 is about the call or about the token'
    const { advice } = CALLS[isKnown ? (`about-the-${about}` as const) : 'no-good-call']
    return { step: 'call', result: 'info', text: `${what}: ${why}`, advice, data: { verdict: about } }
  }
  if (isRejected(finding)) return verdict('token', 'both calls are rejected')
  if (finding.result === 'failed') return verdict('unknown', `${name} did not succeed, either`)
  if (context.destinations(rejected.url).api !== context.destinations(url).api)
    return verdict('unknown', `${name} is a call of another API`)
  const bare = await statusWithoutToken(url, context)
  if (bare === undefined || bare < 300 || bare === 429 || bare >= 500)
    return verdict('unknown', `${name} returned ${bare ?? 'no response'} without the token`)
  return verdict('call', `${name} returned ${finding.status} with the token, and ${bare} without it`)
}

/** The status of a call without the token; undefined if there is no response. */
async function statusWithoutToken(
  url: string,
  { signal, timeoutMs = DEFAULT_TIMEOUT_MS }: CallsContext,
): Promise<number | undefined> {
  try {
    const either = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    const response = await fetch(url, { redirect: 'manual', signal: either })
    await response.body?.cancel()
    return response.status
  } catch (error) {
    if (signal.aborted) throw error
    return undefined
  }
}

async function callApi(url: string, context: CallsContext): Promise<Finding> {
  const { authFetch, env, signal, timeoutMs = DEFAULT_TIMEOUT_MS, redactor } = context
  const { show, secrets } = redactor
  const { connection, stop } = watchConnection(url, env, show)
  const late = AbortSignal.timeout(timeoutMs)
  const startedAt = performance.now()
  try {
    const response = await authFetch(url, { redirect: 'manual', signal: AbortSignal.any([signal, late]) })
    const ms = Math.round(performance.now() - startedAt)
    const said = response.status < 400 ? {} : await readOAuthError(response, secrets).catch(() => ({}))
    if (!response.bodyUsed) await response.body?.cancel()
    return explainResponse(response, { ms, said, show })
  } catch (error) {
    if (signal.aborted) throw error
    const failure = redactedCause(error, secrets) ?? new Error('unknown')
    const finding = late.aborted ? diagnoseTimeout(connection) : diagnoseNetwork(failure, connection)
    return { ...finding, text: `failed: ${finding.text}`, step: 'call', result: 'failed' }
  } finally {
    stop()
  }
}

/** What is known of a response besides itself. */
interface Circumstances extends Pick<Redactor, 'show'> {
  readonly ms: number
  readonly said: OAuthError
}

/** What the response of an API means. */
function explainResponse({ status, ok, headers, url }: Response, { ms, said, show }: Circumstances): Finding {
  const words = [said.error, said.errorDescription, said.detail].filter((part) => part !== undefined)
  const text = [`returned ${status} in ${ms} ms`, ...words].join(': ')
  const found = { step: 'call', status } as const
  if (ok && /^text\/html\b/i.test(headers.get('content-type') ?? ''))
    return { ...found, result: 'warning', text: `${text}, as text/html`, advice: CALLS['web-page'].advice }
  if (ok) return { ...found, result: 'ok', text }
  if (status < 400) {
    const target = parseUrl(headers.get('location') ?? '', url)
    const to = target === undefined ? '' : ` to ${show(target.origin)}`
    const { advice } = CALLS['call-redirected']
    return { ...found, result: 'failed', text: `${text}, a redirect${to}`, advice }
  }
  const challenge = headers.get('www-authenticate')
  const retryAfter = headers.get('retry-after')
  let detail = retryAfter === null ? '' : `, Retry-After: ${show(retryAfter)}`
  if (challenge !== null) detail += `\n${show(challenge)}`
  return { ...found, result: 'failed', text: text + detail, advice: callAdviceOf(status) }
}
