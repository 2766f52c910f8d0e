/** The step `call` of `check`: one call of an API with the token, or two, of which one shows what the 401 of the other is about. */
import { CALLS, VERDICTS } from '../advice/calls.ts'
import { redactedCause, shownUrl } from '../base/redact.ts'
import { parseUrl } from '../base/urls.ts'
import type { Destinations } from '../environment/destinations.ts'
import { type OAuthError, readOAuthError } from '../token/request/token-response.ts'
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
  const told = (verdict: 'call' | 'token', why: string): Finding => ({
    step: 'call',
    result: 'info',
    text: `the 401 is about the ${verdict}: ${why}`,
    advice: VERDICTS[verdict].advice,
    data: { verdict },
  })
  const unknown = (kind: 'notGood' | 'otherApi' | 'open' | 'unclear', why: string): Finding => ({
    step: 'call',
    result: 'info',
    text: `it cannot be told whether the 401 is about the call or about the token: ${why}`,
    advice: VERDICTS[kind].advice,
    data: { verdict: 'unknown' },
  })
  if (isRejected(other.finding)) return told('token', 'both calls are rejected')
  if (other.finding.result === 'failed') return unknown('notGood', `${other.name} did not succeed, either`)
  if (context.destinations(rejected.url).api !== context.destinations(other.url).api)
    return unknown('otherApi', `${other.name} is a call of another API`)
  const bare = await statusWithoutToken(other.url, context)
  if (bare === undefined || bare === 429 || bare >= 500)
    return unknown('unclear', `${other.name} returned ${bare ?? 'no response'} without the token`)
  if (bare < 300) return unknown('open', `${other.name} returned ${bare} without the token, too`)
  return told('call', `${other.name} returned ${other.finding.status} with the token, and ${bare} without it`)
}

/** The status of a call without the token; undefined if there is no response. */
async function statusWithoutToken(
  url: string,
  { signal, timeoutMs }: CallsContext,
): Promise<number | undefined> {
  try {
    const response = await fetch(url, {
      redirect: 'manual',
      signal: AbortSignal.any([signal, timeout(timeoutMs)]),
    })
    await response.body?.cancel()
    return response.status
  } catch (error) {
    if (signal.aborted) throw error
    return undefined
  }
}

function timeout(timeoutMs = DEFAULT_TIMEOUT_MS): AbortSignal {
  return AbortSignal.timeout(timeoutMs)
}

async function callApi(url: string, context: CallsContext): Promise<Finding> {
  const { authFetch, env, signal, timeoutMs, redactor } = context
  const { show, secrets } = redactor
  const { connection, stop } = watchConnection(url, env, show)
  const late = timeout(timeoutMs)
  const startedAt = performance.now()
  try {
    const response = await authFetch(url, { redirect: 'manual', signal: AbortSignal.any([signal, late]) })
    const ms = Math.round(performance.now() - startedAt)
    const said = response.status < 400 ? {} : await readOAuthError(response, secrets).catch(() => ({}))
    if (!response.bodyUsed) await response.body?.cancel()
    return explainResponse(response, ms, { said, show })
  } catch (error) {
    if (signal.aborted) throw error
    const failure = redactedCause(error, secrets) ?? new Error('unknown')
    const finding = late.aborted ? diagnoseTimeout(connection) : diagnoseNetwork(failure, connection)
    return { ...finding, text: `failed: ${finding.text}`, step: 'call', result: 'failed' }
  } finally {
    stop()
  }
}

/** What the response of an API means. */
function explainResponse(
  { status, ok, headers, url }: Response,
  ms: number,
  { said, show }: { readonly said: OAuthError } & Pick<Redactor, 'show'>,
): Finding {
  const words = [said.error, said.errorDescription, said.detail].filter((part) => part !== undefined)
  const text = [`returned ${status} in ${ms} ms`, ...words].join(': ')
  if (ok && /^text\/html\b/i.test(headers.get('content-type') ?? ''))
    return {
      step: 'call',
      result: 'warning',
      text: `${text}, as text/html`,
      advice: CALLS.webPage.advice,
      status,
    }
  if (ok) return { step: 'call', result: 'ok', text, status }
  const failed = { step: 'call', result: 'failed', status } as const
  if (status < 400) {
    const location = headers.get('location') ?? ''
    const target = parseUrl(location, url)
    const to = target === undefined ? '' : ` to ${show(target.origin)}`
    return { ...failed, text: `${text}, a redirect${to}`, advice: CALLS.redirected.advice }
  }
  const challenge = headers.get('www-authenticate')
  const retryAfter = headers.get('retry-after')
  let detail = retryAfter === null ? '' : `, Retry-After: ${show(retryAfter)}`
  if (challenge !== null) detail += `\n${show(challenge)}`
  return { ...failed, text: text + detail, advice: adviceFor(status) }
}

function adviceFor(status: number): string {
  const byStatus = Object.values<{ readonly statuses?: readonly number[]; readonly advice: string }>(
    CALLS,
  ).find(({ statuses }) => statuses?.includes(status))
  return (byStatus ?? (status >= 500 ? CALLS.apiFails : CALLS.otherStatus)).advice
}
