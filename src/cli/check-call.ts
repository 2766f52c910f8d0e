/** One API call with the token, and what its answer means. */
import { createAuthFetch } from '../attach/fetch.ts'
import { destinationsOf } from '../destinations.ts'
import type { Environment } from '../environments.ts'
import { redactedCause, shownUrl } from '../redact.ts'
import type { TokenProvider } from '../token/provider.ts'
import { adviceForNetwork, adviceForTimeout } from './advice-network.ts'
import { watchConnection } from './connection.ts'
import { causeOf } from './diagnosis.ts'
import type { Hiding } from './hiding.ts'
import type { Finding, Report } from './report.ts'
import type { Header } from './settings.ts'
import { EXIT, type Surroundings } from './terminal.ts'

export interface ApiCall {
  readonly url: string
  readonly tokens: TokenProvider
  readonly header: Header
  readonly timeoutMs: number
  readonly report: Report
  readonly hiding: Hiding
}

/** What is wrong with the URL of a call, which costs no token to find out. */
export function callProblem(url: string, environment: Environment, { shown }: Hiding): Finding | undefined {
  if (destinationsOf(environment).apiOf(url) !== undefined) return undefined
  return {
    step: 'call',
    result: 'failed',
    text: `${shown(shownUrl(url))} does not lie below any of the API URLs, so no token goes there`,
    advice: 'Correct the URL, or add its base URL to MERCHANT_AUTH_API_URLS.',
  }
}

/** Makes the call, and resolves with the exit code. */
export async function callApi(call: ApiCall, surroundings: Surroundings): Promise<number> {
  const { url, report, hiding } = call
  report.pending(`GET ${hiding.shown(shownUrl(url))}`)
  const finding = await answerOf(call, surroundings)
  if (finding === undefined) return EXIT.unexpected
  report.add(finding)
  return finding.result === 'failed' ? EXIT.call : EXIT.ok
}

/** What came of it; undefined where somebody ended it. */
async function answerOf(call: ApiCall, { env, signal }: Surroundings): Promise<Finding | undefined> {
  const { url, tokens, header, timeoutMs, hiding } = call
  const request = `GET ${hiding.shown(shownUrl(url))}`
  const authFetch = createAuthFetch(tokens, {
    renewOnStatus: [], // a new token would be refused for the same reason
    ...header,
  })
  const connection = watchConnection(url, env, hiding.shown)
  const timeout = AbortSignal.timeout(timeoutMs)
  const startedAt = performance.now()
  try {
    const response = await authFetch(url, {
      redirect: 'manual',
      signal: AbortSignal.any([signal, timeout]),
    })
    const ms = Math.round(performance.now() - startedAt)
    await response.body?.cancel()
    return judged(response, `${request} answered ${response.status} in ${ms} ms`, hiding)
  } catch (error) {
    if (signal.aborted) return undefined
    const context = connection.context()
    const fit = redactedCause(error, hiding.secrets)
    const cause = fit && causeOf(fit)
    const { text, advice } = timeout.aborted ? adviceForTimeout(context) : adviceForNetwork(cause, context)
    return {
      step: 'call',
      result: 'failed',
      text: `${request}: ${text}`,
      advice,
      cause: cause?.code,
    }
  } finally {
    connection.stop()
  }
}

function judged(response: Response, said: string, { shown }: Hiding): Finding {
  const { status, ok } = response
  const finding = { step: 'call', result: ok ? 'ok' : 'failed', status } as const
  if (ok) return { ...finding, text: said }
  const [more, advice] = meaningOf(response, shown)
  return { ...finding, text: said + more, advice }
}

/** What else the answer says, and what to do. */
function meaningOf({ status, headers, url }: Response, shown: Hiding['shown']): readonly [string, string] {
  const location = headers.get('location')
  if (status < 400) {
    const to =
      location !== null && URL.canParse(location, url) ? ` to ${shown(new URL(location, url).origin)}` : ''
    return [`, a redirect${to}`, 'It was not followed. Check the URL.']
  }
  const challenge = headers.get('www-authenticate')
  if (status === 401) return [challenge === null ? '' : `\n${shown(challenge)}`, REFUSED]
  const retryAfter = headers.get('retry-after')
  const pause = retryAfter === null ? '' : `, Retry-After: ${shown(retryAfter)}`
  return [pause, ADVICE[status] ?? (status >= 500 ? TROUBLE : 'Check the URL, and whether it takes a GET.')]
}

const REFUSED =
  'The API refuses the token. Check that the audience and the API URL belong to the same environment, and by the ' +
  "service's documentation the header that carries the token (--header-name, --scheme)."
const TROUBLE = 'The API is in trouble. Whether it takes the token, this does not tell: try again later.'
const ADVICE: Readonly<Record<number, string>> = {
  403: 'The API, or a firewall before it, does not allow this. The client may lack a right or a scope: ask the service.',
  404: 'There is nothing at this URL, at least for a GET. Whether the API takes the token, this does not tell.',
  405: 'This URL takes no GET. Whether the API takes the token, this does not tell.',
  429: 'Too many calls were made. Try again later.',
}
