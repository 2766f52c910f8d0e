/** One API call with the token, and what its answer means. */
import { createAuthFetch } from '../attach/fetch.ts'
import { destinationsOf } from '../destinations.ts'
import { scrub, shownUrl } from '../secret.ts'
import type { TokenProvider } from '../token/token-provider.ts'
import { adviceForNetwork, adviceForTimeout } from './advice-network.ts'
import { watchConnection } from './connection.ts'
import { causeOf } from './diagnosis.ts'
import type { Finding, Report } from './report.ts'
import type { Header } from './settings.ts'
import { EXIT, printable, type Surroundings } from './terminal.ts'

export interface ApiCall {
  readonly url: string
  readonly tokens: TokenProvider
  readonly header: Header
  readonly timeoutMs: number
  readonly report: Report
}

/** Makes the call, and resolves with the exit code. */
export async function callApi(call: ApiCall, surroundings: Surroundings): Promise<number> {
  const { url, tokens, report } = call
  if (destinationsOf(tokens.environment).apiOf(url) === undefined) {
    report.add({
      step: 'call',
      result: 'failed',
      text: `${shownUrl(url)} does not lie below any of the API URLs, so no token goes there`,
      advice: 'Correct the URL, or add its base URL to MERCHANT_AUTH_API_URLS.',
    })
    return EXIT.call
  }
  report.pending(`GET ${shownUrl(url)}`)
  const finding = await answerOf(call, surroundings)
  if (finding === undefined) return EXIT.unexpected
  report.add(finding)
  return finding.result === 'failed' ? EXIT.call : EXIT.ok
}

/** What came of it; undefined where somebody ended it. */
async function answerOf(call: ApiCall, { env, signal }: Surroundings): Promise<Finding | undefined> {
  const { url, tokens, header, timeoutMs } = call
  const authFetch = createAuthFetch(tokens, {
    renewOnStatus: [], // a new token would be refused for the same reason
    ...header,
  })
  const connection = watchConnection(url, env)
  const timeout = AbortSignal.timeout(timeoutMs)
  const startedAt = performance.now()
  try {
    const response = await authFetch(url, {
      redirect: 'manual',
      signal: AbortSignal.any([signal, timeout]),
    })
    const ms = Math.round(performance.now() - startedAt)
    await response.body?.cancel()
    return judged(response, `GET ${shownUrl(url)} answered ${response.status} in ${ms} ms`, tokens)
  } catch (error) {
    if (signal.aborted) return undefined
    const context = connection.context()
    const cause = error instanceof Error ? causeOf(error) : undefined
    const { text, advice } = timeout.aborted ? adviceForTimeout(context) : adviceForNetwork(cause, context)
    return {
      step: 'call',
      result: 'failed',
      text: `GET ${shownUrl(url)}: ${text}`,
      advice,
      cause: cause?.code,
    }
  } finally {
    connection.stop()
  }
}

function judged(response: Response, said: string, tokens: TokenProvider): Finding {
  const { status, headers } = response
  const of = (result: Finding['result'], text: string, advice?: string): Finding => ({
    step: 'call',
    result,
    text,
    status,
    ...(advice === undefined ? {} : { advice }),
  })
  if (response.ok) return of('ok', said)
  if (status < 400) {
    const location = headers.get('location')
    const to =
      location !== null && URL.canParse(location, response.url) ? new URL(location, response.url).origin : ''
    return of('failed', `${said}, a redirect${to && ` to ${to}`}`, 'It was not followed. Check the URL.')
  }
  if (status === 401) {
    const challenge = headers.get('www-authenticate')
    const shown =
      challenge === null ? '' : `\n${printable(scrub(challenge, [tokens.currentToken()?.value ?? '']))}`
    return of('failed', said + shown, REFUSED)
  }
  return of(
    'failed',
    said,
    ADVICE[status] ?? (status >= 500 ? TROUBLE : 'Check the URL, and whether it takes a GET.'),
  )
}

const REFUSED =
  'The API refuses the token. Check that the audience and the API URL belong to the same environment, and by the ' +
  "service's documentation the header that carries the token (--header-name, --scheme)."
const TROUBLE = 'The API is in trouble. Whether it takes the token, this does not tell: try again later.'
const ADVICE: Readonly<Record<number, string>> = {
  403: 'The API knows the token, but does not allow this. The client may lack a right or a scope: ask the service.',
  404: 'There is nothing at this URL, at least for a GET. Whether the API takes the token, this does not tell.',
  405: 'This URL takes no GET. Whether the API takes the token, this does not tell.',
  429: 'Too many calls were made. Try again later.',
}
