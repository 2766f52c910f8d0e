/** Keeps secrets out of what can be logged. Only foreign text is searched: answers, headers, URLs, errors of others. */
import { ERROR_CODES, ERROR_MESSAGES, ERROR_NAMES, type KnownWords } from './vocabulary.ts'

export const HIDDEN = '[hidden]'
/** A longer text is not worth the search, and is not shown. */
export const MAX_SEARCHED = 10_000
/** What is left of a text around a shorter secret would tell which one it is. */
export const LEAST_SECRET = 8
/** Of fewer characters, any text may have the base64 or the hexadecimal by chance. */
const LEAST_ENCODED = 3
/** How often a text may be escaped anew before nothing of it is shown. */
const MAX_ESCAPES = 5
const MAX_CAUSES = 5
/** How many secrets are remembered: client secrets and tokens, also of those that were replaced a while ago. */
const MOST_SECRETS = 16

/** The client secrets and tokens used last, to be kept out of whatever is shown. */
export class UsedSecrets implements Iterable<string> {
  readonly #secrets = new Set<string>()

  /** Remembers a secret as the one used last. Returns whether it is a new one. */
  add(secret: string): boolean {
    const isNew = !this.#secrets.delete(secret)
    this.#secrets.add(secret)
    for (const oldest of this.#secrets) if (this.#secrets.size > MOST_SECRETS) this.#secrets.delete(oldest)
    return isNew
  }

  [Symbol.iterator](): Iterator<string> {
    return this.#secrets.values()
  }
}

/**
 * Foreign text without secrets: each is replaced where it stands as it is. Where one can be read in another case or
 * spelling, or is so short that the rest of the text would tell it, nothing of the text is shown.
 */
export function redact(text: string, secrets: Iterable<string>): string {
  if (text.length > MAX_SEARCHED) return HIDDEN
  const all = [...secrets].filter(({ length }) => length <= MAX_SEARCHED)
  const parts = all
    .filter(({ length }) => length >= LEAST_SECRET)
    .sort((a, b) => b.length - a.length) // so that none leaves the rest of a longer one
    .reduce((parts, secret) => parts.flatMap((part) => part.split(secret)), [text])
  const forms = all.flatMap((secret) => [
    ...readings(secret).map(readable),
    ...(secret.length < LEAST_ENCODED ? [] : [Buffer.from(secret).toString('hex')]),
  ])
  const wanted = forms.filter((form) => form !== '')
  return parts.some((part) => holds(part, wanted)) ? HIDDEN : parts.join(HIDDEN)
}

/** A word as it is where it is a known one, which is no news of a secret; else searched as any foreign text. */
export function redactWord(word: string, known: KnownWords, secrets: Iterable<string>): string {
  return known.has(word) ? word : redact(word, secrets)
}

/** Whether one of the forms can be read in a text, in its escapes, in the escapes of those, or in base64 in any of them. */
function holds(text: string, forms: readonly string[], isDecoded = false): boolean {
  let read = text
  for (let times = 0; times < MAX_ESCAPES; times += 1) {
    const plain = readable(read)
    if (forms.some((form) => plain.includes(form))) return true
    const encoded = isDecoded ? [] : forms.filter(({ length }) => length >= LEAST_ENCODED)
    if (encoded.length > 0 && holds(decoded(read), encoded, true)) return true
    const next = unescaped(read)
    if (next === read) return false
    read = next
  }
  return true // there is no end to its escapes
}

/** A secret, and what it reads as where its own characters are taken for escapes. */
function readings(secret: string): string[] {
  const all = [secret]
  for (let next = unescaped(secret); !all.includes(next) && all.length < MAX_ESCAPES; next = unescaped(next))
    if (next.length >= LEAST_ENCODED) all.push(next)
    else break
  return all
}

/** Without case, without what nobody sees, and without blanks, which forms write as a plus. */
function readable(text: string): string {
  return text
    .normalize('NFKC')
    .replace(/[\p{C}\s\uFFFD+]+/gu, '')
    .toLowerCase()
}

/** What the base64 in a text stands for, wherever within a run of it something begins. */
function decoded(text: string): string {
  const runs = text.replace(/[\p{C}\s]+/gu, '').match(/[\w+/-]{4,}/g) ?? []
  const from = (start: number): string[] =>
    runs.map((run) => Buffer.from(run.slice(start), 'base64').toString())
  return [0, 1, 2, 3].flatMap(from).join(' ')
}

const ESCAPE =
  /(&#x[\da-f]{1,8};?|\\u\{[\da-f]{1,6}\}|[\\%]u[\da-f]{4}|\\x[\da-f]{2})|&#(\d{1,8});?|&([a-z]{2,6});|((?:%[\da-f]{2})+)|\\(.)/gis

/** The text with every HTML, JavaScript and percent escape read once. */
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

/**
 * A copy of a foreign error (of fetch, of a secret's source) that holds name, message, stack, code and the
 * cause chain, searched, and nothing else: such errors may carry whole requests.
 */
export function redactedCause(error: unknown, secrets: Iterable<string>, depth = 0): Error | undefined {
  if (typeof error !== 'object' || error === null || depth === MAX_CAUSES) return undefined
  const read = (key: string): unknown => readSafely(() => Reflect.get(error, key) as unknown)
  const text = (key: string, known: KnownWords = new Set()): string | undefined => {
    const value = read(key)
    return value === undefined ? undefined : redactWord(readSafely(() => String(value)) ?? '', known, secrets)
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

/** A foreign object may do anything when it is read. */
function readSafely<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** The place of a URL that may be shown: without user info, query and fragment, and without secrets in its path. */
export function shownUrl(url: string | URL, secrets?: Iterable<string>): string {
  if (!URL.canParse(String(url))) return '(not a URL)'
  const { protocol, host, pathname } = new URL(url)
  const path = secrets === undefined ? pathname : redact(pathname, secrets)
  return `${protocol}//${host}${path === HIDDEN ? `/${HIDDEN}` : path}`
}
