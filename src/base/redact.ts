/** Removes secrets from foreign text that can be logged: responses, headers, paths of URLs, errors of others. */
import { parseUrl } from './urls.ts'

export const HIDDEN = '[hidden]'
/** A shorter secret is not searched for: other text could contain it by chance. */
export const LEAST_SECRET = 8
const MAX_CAUSES = 5
/** Of an AggregateError: one for each address of a host. */
const MAX_ERRORS = 10
/** Longer secrets are not searched for in escaped forms: the regular expression could become too large. */
const MAX_ESCAPED = 2_000
/** How many client secrets and tokens are remembered, including replaced ones. */
const MAX_SECRETS = 16

/** The most recently used client secrets and tokens. */
export class UsedSecrets implements Iterable<string> {
  readonly #secrets = new Set<string>()
  /** Those in use, by what they are. */
  readonly #kept = new Map<string, string>()

  /** Adds a secret, or marks it as the most recently used. Returns whether it is new. */
  add(secret: string): boolean {
    const isNew = !this.#secrets.delete(secret)
    this.#secrets.add(secret)
    for (const oldest of this.#secrets) if (this.#secrets.size > MAX_SECRETS) this.#secrets.delete(oldest)
    return isNew
  }

  /** Keeps a secret, however many others are added, until another one of this kind takes its place. */
  keep(kind: string, secret: string): void {
    this.#kept.set(kind, secret)
    this.add(secret)
  }

  *[Symbol.iterator](): Generator<string> {
    yield* this.#kept.values()
    yield* this.#secrets
  }
}

/** Replaces secrets in a foreign text: verbatim, as JSON, URLs, forms and base64 write them, as a form reader decodes them. */
export function redact(text: string, secrets: Iterable<string>): string {
  return [...new Set([...secrets].flatMap((secret) => [secret, percentDecoded(secret)]))]
    .filter(({ length }) => length >= LEAST_SECRET && length <= text.length) // no form is shorter
    .sort((a, b) => b.length - a.length) // so that a secret does not split a longer one that contains it
    .flatMap(formsOf)
    .reduce((parts, form) => parts.flatMap((part) => part.split(form)), [text])
    .join(HIDDEN)
}

/**
 * Foreign text on one line of limited length, without secrets, and without characters that could control a terminal. It is
 * searched before it is cut, so that no part of a secret remains.
 */
export function printable(
  text: string,
  { length = 300, secrets = [] }: { readonly length?: number; readonly secrets?: Iterable<string> } = {},
): string {
  const line = redact(text, secrets).replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ')
  return line.length > length ? `${line.slice(0, length - 1)}…` : line
}

/** The forms in which a text can contain a secret. */
function formsOf(secret: string): (string | RegExp)[] {
  // HTTP Basic (RFC 6749 §2.3.1) encodes the secret as a form does, or as many clients do instead, and the result in base64.
  const inBasic = new Set([secret, encodeURIComponent(secret.toWellFormed()), formEncoded(secret)])
  const forms = [secret, ...[...inBasic].flatMap(base64FormsOf)]
  const isEscaped = /[^\w.-]/.test(secret) && secret.length <= MAX_ESCAPED
  return isEscaped ? [...forms, new RegExp(secret.replace(/[^\w-]/gu, spellingsOf), 'i')] : forms
}

/** As a server reads it that takes JSON for a form, but for `+`, of which the spellings below know that it may be a space. */
function percentDecoded(secret: string): string {
  if (!secret.includes('%')) return secret
  const field = secret.replaceAll('&', '%26').replaceAll('+', '%2B')
  return new URLSearchParams(`=${field}`).get('') ?? secret
}

/** A text as a form contains it (application/x-www-form-urlencoded). */
export function formEncoded(text: string): string {
  return String(new URLSearchParams([['', text]])).slice(1)
}

/** The base64 of a secret at each of the three offsets in a longer text, without the characters that other text affects. */
function base64FormsOf(secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [0, 1, 2].flatMap((offset) => {
    const base64 = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64')
    const form = base64.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6))
    return [form, form.replaceAll('+', '-').replaceAll('/', '_')] // and base64url
  })
}

/** A regular expression for a character as it is, and as JSON, URLs and forms may escape it. */
function spellingsOf(char: string): string {
  // A form writes a space as +, and its reader decodes a + as a space.
  const chars = char === ' ' || char === '+' ? [' ', '+'] : [char]
  const spellings = chars.flatMap((one) => {
    const utf8 = Buffer.from(one).toString('hex').replace(/../g, '%$&')
    const utf16 = Buffer.from(one, 'utf16le').swap16().toString('hex').replace(/.{4}/g, '\\u$&')
    return [one, `\\${one}`, JSON.stringify(one).slice(1, -1), utf8, utf16]
  })
  return `(?:${spellings.map((text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')).join('|')})`
}

/** A JWT: a function that signs an assertion may fail before it returns it. */
const JWT = /eyJ[\w-]+(?:\.[\w-]*){2,4}/g

/** What JSON.parse quotes: a function may parse a secret that is no JSON. Anchored, so that the search is linear. */
const QUOTED_JSON = /^([^"]*)".*"(?=(?:\.{3})? is not valid JSON)/s

/** Names of error classes and codes of systems contain no secrets. */
const WORD = /^(?:[A-Z]\w*Error|[A-Z][A-Z0-9_]+)$/

/**
 * A redacted copy of a foreign error, for example of fetch or of a `clientSecret` function. It has name, message, stack,
 * code, the cause chain and the errors of an AggregateError, and nothing else, because such errors may contain whole requests.
 */
export function redactedCause(error: unknown, secrets: Iterable<string>, depth = 0): Error | undefined {
  if (typeof error !== 'object' || error === null || depth === MAX_CAUSES) return undefined
  const { name, message, stack, code, cause, errors } = error as Error & { code?: unknown; errors?: unknown }
  const shown = (text: unknown): string =>
    typeof text === 'string'
      ? redact(text.replace(QUOTED_JSON, `$1${HIDDEN}`).replace(JWT, HIDDEN), secrets)
      : ''
  const word = (text: unknown): string => (typeof text === 'string' && WORD.test(text) ? text : shown(text))
  const inner = redactedCause(cause, secrets, depth + 1)
  const options = inner && { cause: inner }
  const copy = Array.isArray(errors)
    ? new AggregateError(
        errors.slice(0, MAX_ERRORS).flatMap((one) => redactedCause(one, secrets, depth + 1) ?? []),
        shown(message),
        options,
      )
    : new Error(shown(message), options)
  const hidden = { configurable: true, enumerable: false, writable: true }
  Object.defineProperty(copy, 'name', { ...hidden, value: word(name) || 'Error' })
  if (stack !== undefined) Object.defineProperty(copy, 'stack', { ...hidden, value: shown(stack) })
  if (typeof code === 'string') Object.assign(copy, { code: word(code) })
  return copy
}

/** A URL for log output: without user info, query and fragment, and with its path redacted. */
export function shownUrl(url: string | URL, secrets: Iterable<string> = []): string {
  const parsed = parseUrl(String(url))
  if (parsed === undefined) return '(not a URL)'
  const { protocol, host, pathname } = parsed
  return `${protocol}//${host}${redact(pathname, secrets)}`
}
