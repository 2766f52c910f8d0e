/** What of a request may be kept and shown: its headers and its path, without the credentials in them. */
import { redact } from '../redact.ts'

/** What tells credentials from other text. */
export interface KnownCredentials {
  /** Every client secret that is or was accepted. */
  readonly secrets: ReadonlySet<string>
  /** The `jti` of a token that this environment issued. */
  jtiOf(token: string): string | undefined
}

const HIDDEN = '[hidden]'

/** Credentials of which nothing is left but the names of tokens: `Bearer [token x]`. */
const ONLY_TOKENS = /^(?:(?:[\w-]+ )?\[token [\w-]+\](?:, |$))+$/

/** The text with tokens replaced by their names and other credentials by `[hidden]`. */
export function hide(text: string, known: KnownCredentials): string {
  return redact(nameTokens(text, known), known.secrets)
}

/** Replaces what looks like a JWT: three parts, of which the first begins, or goes on at a `-`, with the base64 of `{"`. */
function nameTokens(text: string, { jtiOf }: KnownCredentials): string {
  // Part by part: a pattern for the whole would begin anew at each of them, and take the square of their number.
  return text.replace(/[\w.-]+/g, (run) => {
    const parts = run.split('.')
    const named: string[] = []
    for (let n = 0; n < parts.length; n += 1) {
      const [head = '', payload, signature] = parts.slice(n, n + 3)
      const at = head.search(/\beyJ/)
      if (at === -1 || !payload || signature === undefined) named.push(head)
      else {
        const jti = jtiOf([head.slice(at), payload, signature].join('.'))
        named.push(head.slice(0, at) + (jti === undefined ? HIDDEN : `[token ${jti}]`))
        n += 2
      }
    }
    return named.join('.')
  })
}

/**
 * The headers of a request, fit to be shown.
 *
 * @param tokenHeader the header that carries the token, in lower case; hidden as a whole where it holds anything else
 */
export function hideHeaders(
  headers: Readonly<Record<string, string>>,
  tokenHeader: string,
  known: KnownCredentials,
): Record<string, string> {
  const credentials = new Set(['authorization', 'proxy-authorization', 'cookie', tokenHeader])
  // One look for the secrets in all of them: they are hardly ever there, and each look has many spellings.
  const all = Object.values(headers).join('\n')
  const suspicious = redact(all, known.secrets) !== all
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      const named = nameTokens(value, known)
      const shown = suspicious ? redact(named, known.secrets) : named
      return [name, credentials.has(name) && !ONLY_TOKENS.test(shown) ? HIDDEN : shown]
    }),
  )
}
