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

/** A JWT begins with the base64 of `{"`. */
const JWT = /\beyJ[\w-]*\.[\w-]+\.[\w-]*/g

/** Credentials of which nothing is left but the names of tokens: `Bearer [token x]`. */
const ONLY_TOKENS = /^(?:(?:[\w-]+ )?\[token [\w-]+\](?:, |$))+$/

/** The text with tokens replaced by their names and other credentials by `[hidden]`. */
export function hide(text: string, known: KnownCredentials): string {
  return redact(nameTokens(text, known), known.secrets)
}

function nameTokens(text: string, { jtiOf }: KnownCredentials): string {
  return text.replace(JWT, (token) => {
    const jti = jtiOf(token)
    return jti === undefined ? HIDDEN : `[token ${jti}]`
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
