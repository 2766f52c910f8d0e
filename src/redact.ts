/** Removes secrets from text that can be logged. Only foreign text is searched: responses, headers, URLs, other errors. */
import { constants } from 'node:os'

export const HIDDEN = '[hidden]'
/** Longer text is replaced without a search, which would be too slow. */
export const MAX_SEARCHED = 10_000
/** With a shorter secret, the text around a replacement could reveal the secret. */
export const LEAST_SECRET = 8
/** So much of the beginning of a secret that is too long to search for. */
const LEAST_BEGINNING = 64
/** The base64 or hexadecimal form of a shorter secret appears in other text by chance. */
const LEAST_ENCODED = 3
/** How many levels of escapes are decoded. Text with more levels is replaced entirely. */
const MAX_ESCAPES = 5
const MAX_CAUSES = 5
/** How many client secrets and tokens are remembered, including replaced ones. */
const MAX_SECRETS = 16

/** The most recently used client secrets and tokens. */
export class UsedSecrets implements Iterable<string> {
  readonly #secrets = new Set<string>()
  #latest: string | undefined
  /** Those in use, by what they are. */
  readonly #kept = new Map<string, string>()
  readonly #max: number

  constructor(max: number = MAX_SECRETS) {
    this.#max = max
  }

  has(secret: unknown): boolean {
    return this.#secrets.has(secret as string)
  }

  /** Adds a secret, or marks it as the most recently used. Returns whether it is new. */
  add(secret: string): boolean {
    if (secret === this.#latest) return false // as in most calls of a client
    this.#latest = secret
    const isNew = !this.#secrets.delete(secret)
    this.#secrets.add(secret)
    for (const oldest of this.#secrets) if (this.#secrets.size > this.#max) this.#secrets.delete(oldest)
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

/**
 * Foreign text without secrets. A verbatim secret is replaced. If the text contains a secret in another case or encoding,
 * or one that is too short to replace, the whole text is replaced.
 */
export function redact(text: string, secrets: Iterable<string>): string {
  if (text.length > MAX_SEARCHED) return HIDDEN
  const used = [...secrets]
  // Of a secret that is longer than any text only the beginning can be in it.
  const isLong = ({ length }: string): boolean => length > MAX_SEARCHED
  if (used.some((secret) => isLong(secret) && text.includes(secret.slice(0, LEAST_BEGINNING)))) return HIDDEN
  const all = used.filter((secret) => !isLong(secret))
  const parts = all
    .filter(({ length }) => length >= LEAST_SECRET)
    .sort((a, b) => b.length - a.length) // so that a secret does not split a longer one that contains it
    .reduce((parts, secret) => parts.flatMap((part) => part.split(secret)), [text])
  const forms = all.flatMap((secret) => [
    ...decodedForms(secret).map(normalized),
    ...(secret.length < LEAST_ENCODED ? [] : [Buffer.from(secret).toString('hex')]),
  ])
  const searched = forms.filter((form) => form !== '')
  return parts.some((part) => containsAny(part, searched)) ? HIDDEN : parts.join(HIDDEN)
}

/** Known words of standards, Node.js and Redis, by list or by pattern. They are not redacted, even if a secret contains them. */
export interface KnownWords {
  has(word: string): boolean
}

/** System error codes, and the first words of Redis errors. */
const CODES = /* @__PURE__ */ setOf(
  `${Object.keys(constants.errno).join(' ')} EAI_AGAIN ENOTFOUND ` +
    'ASK BUSY CLUSTERDOWN CROSSSLOT DENIED ERR EXECABORT IOERR LOADING MASTERDOWN MISCONF MOVED NOAUTH NOPERM ' +
    'NOREPLICAS NOSCRIPT OOM READONLY TRYAGAIN WRONGPASS WRONGTYPE',
)

/** Code families that only Node.js itself creates, for TLS, compression and HTTP. A server cannot choose them. */
const CODE_FAMILIES =
  /^(?:CERT|DEPTH_ZERO|ERR_(?:OSSL|SSL|TLS)|ERR__ERROR_FORMAT|HPE|SELF_SIGNED|UNABLE_TO|UND_ERR|ZSTD_error|Z)_\w{1,60}$/

/** Error codes. */
export const ERROR_CODES: KnownWords = {
  has: (code) => CODES.has(code) || CODE_FAMILIES.test(code),
}

/** Error names. */
const ERROR_NAMES: ReadonlySet<string> = /* @__PURE__ */ setOf(
  'AbortError AggregateError ConnectTimeoutError DOMException Error RangeError SocketError SyntaxError TimeoutError TypeError',
)

/** Messages of Node.js' fetch that come without a code. */
const ERROR_MESSAGES: KnownWords = {
  has: (message) =>
    /^(?:fetch failed|bad port|terminated|other side closed|Proxy response \(\d{3}\) !== 200 when HTTP Tunneling)$/.test(
      message,
    ),
}

/** Each call is marked as pure, so that bundles omit unused sets. */
export function setOf(words: string): Set<string> {
  return new Set(words.split(' '))
}

/** Returns a known word unchanged, because it reveals no secret. Redacts any other text. */
export function redactWord(word: string, known: KnownWords, secrets: Iterable<string>): string {
  return known.has(word) ? word : redact(word, secrets)
}

/** Whether a text contains one of the forms, directly, escaped any number of times, or in base64. */
function containsAny(text: string, forms: readonly string[], isDecoded = false): boolean {
  let read = text
  for (let times = 0; times < MAX_ESCAPES; times += 1) {
    const plain = normalized(read)
    if (forms.some((form) => plain.includes(form))) return true
    const encoded = isDecoded ? [] : forms.filter(({ length }) => length >= LEAST_ENCODED)
    if (encoded.length > 0 && containsAny(decoded(read), encoded, true)) return true
    const next = unescaped(read)
    if (next === read) return false
    read = next
  }
  return true // too many levels of escapes
}

/** A secret, and what remains of it if its own characters are decoded as escapes. */
function decodedForms(secret: string): string[] {
  const all = [secret]
  for (let next = unescaped(secret); !all.includes(next) && all.length < MAX_ESCAPES; next = unescaped(next))
    if (next.length >= LEAST_ENCODED) all.push(next)
    else break
  return all
}

/** In lower case, without invisible characters, and without blanks, which forms encode as a plus. */
function normalized(text: string): string {
  return text
    .normalize('NFKC')
    .replace(/[\p{C}\s\uFFFD+]+/gu, '')
    .toLowerCase()
}

/** The decoded base64 of a text, at each of the four possible offsets. */
function decoded(text: string): string {
  const runs = text.replace(/[\p{C}\s]+/gu, '').match(/[\w+/-]{4,}/g) ?? []
  const from = (start: number): string[] =>
    runs.map((run) => Buffer.from(run.slice(start), 'base64').toString())
  return [0, 1, 2, 3].flatMap(from).join(' ')
}

const ESCAPE =
  /(&#x[\da-f]{1,8};?|\\u\{[\da-f]{1,6}\}|[\\%]u[\da-f]{4}|\\x[\da-f]{2})|&#(\d{1,8});?|&([a-z]{2,6});|((?:%[\da-f]{2})+)|\\(.)/gis

/** The text with one level of HTML, JavaScript and percent escapes decoded. */
function unescaped(text: string): string {
  return text.replace(
    ESCAPE,
    (whole, hex?: string, decimal?: string, entity?: string, bytes?: string, char?: string) => {
      if (hex !== undefined) return character(Number.parseInt(hex.replace(/^[^ux]*[ux]\{?/i, ''), 16))
      if (decimal !== undefined) return character(Number(decimal))
      if (entity !== undefined) return ENTITIES[entity.toLowerCase()] ?? whole
      if (bytes !== undefined) return Buffer.from(bytes.replaceAll('%', ''), 'hex').toString()
      return char === undefined || 'bfnrt'.includes(char) ? '' : char
    },
  )
}

function character(code: number): string {
  return code <= 0x10ffff ? String.fromCodePoint(code) : ''
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  apos: "'",
  bsol: '\\',
  colon: ':',
  commat: '@',
  equals: '=',
  gt: '>',
  lowbar: '_',
  lt: '<',
  period: '.',
  plus: '+',
  quot: '"',
  sol: '/',
}

/** JWTs and private keys: a function that makes an assertion may fail before it returns it. */
const CREDENTIALS =
  /eyJ[\w-]+(?:\.[\w-]*){2,4}|-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|$)/gs

/**
 * A redacted copy of a foreign error, for example of fetch or of a `clientSecret` function. It has name, message, stack,
 * code and the cause chain, and nothing else, because such errors may contain whole requests.
 */
export function redactedCause(error: unknown, secrets: Iterable<string>, depth = 0): Error | undefined {
  if (typeof error !== 'object' || error === null || depth === MAX_CAUSES) return undefined
  const read = (key: string): unknown => readSafely(() => Reflect.get(error, key) as unknown)
  const text = (key: string, known: KnownWords = new Set()): string | undefined => {
    const value = read(key)
    if (value === undefined) return undefined
    const given = readSafely(() => String(value)) ?? ''
    const shown = given.length > MAX_SEARCHED ? given : given.replace(CREDENTIALS, HIDDEN)
    return redactWord(shown, known, secrets)
  }
  const first = readSafely(() => (read('errors') as readonly unknown[])[0])
  const inner = redactedCause(read('cause') ?? first, secrets, depth + 1)
  const copy = new Error(text('message', ERROR_MESSAGES) ?? '', inner && { cause: inner })
  const hidden = { configurable: true, enumerable: false, writable: true }
  Object.defineProperty(copy, 'name', { ...hidden, value: text('name', ERROR_NAMES) ?? 'Error' })
  const stack = text('stack')
  if (stack !== undefined) Object.defineProperty(copy, 'stack', { ...hidden, value: stack })
  if (typeof read('code') === 'string') Object.assign(copy, { code: text('code', ERROR_CODES) })
  return copy
}

/** Reading a foreign object may throw. */
function readSafely<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** A URL for log output: without user info, query and fragment, and with its path redacted. */
export function shownUrl(url: string | URL, secrets?: Iterable<string>): string {
  if (!URL.canParse(String(url))) return '(not a URL)'
  const { protocol, host, pathname } = new URL(url)
  const path = secrets === undefined ? pathname : redact(pathname, secrets)
  return `${protocol}//${host}${path === HIDDEN ? `/${HIDDEN}` : path}`
}
