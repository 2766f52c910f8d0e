/** Keeps secrets out of what is printed: scrubbed text, and copies of foreign errors that carry nothing else. */

export const HIDDEN = '[hidden]'
/** Stands for it while other secrets are looked for: the word may be one, or hold one. */
const MARK = '\uE000'
const MAX_CAUSES = 5
/** A longer text is not worth the search, and is not shown. */
export const MAX_SEARCHED = 10_000
/** How often a text may be escaped anew before nothing of it is shown. */
const MAX_ESCAPES = 5
/** Fewer characters of base64 or hexadecimal may stand in any text by chance. */
const LEAST_ENCODED = 6
/** How many secrets are remembered: client secrets and tokens, also of those that were replaced a while ago. */
const MOST_SECRETS = 16

/** What one secret looks like in a text. */
interface Forms {
  readonly spellings: readonly string[]
  readonly base64: readonly string[]
  /** What somebody finds who reads the escapes of a text. */
  readonly read: readonly string[]
}

/** The client secrets and tokens used last, to be taken out of whatever is said. */
export class UsedSecrets implements Iterable<string> {
  readonly #forms = new Map<string, Forms | undefined>()

  /** Remembers a secret as the one used last. */
  add(secret: string): void {
    const forms = this.#forms.get(secret)
    this.#forms.delete(secret)
    this.#forms.set(secret, forms)
    for (const oldest of this.#forms.keys()) if (this.#forms.size > MOST_SECRETS) this.#forms.delete(oldest)
  }

  [Symbol.iterator](): Iterator<string> {
    return this.#forms.keys()
  }

  /** The forms of one of them, made when they are needed first. */
  formsOf(secret: string): Forms {
    const forms = this.#forms.get(secret) ?? formsOf(secret)
    if (this.#forms.has(secret)) this.#forms.set(secret, forms)
    return forms
  }
}

/** The text with every spelling of the secrets replaced. */
export function scrub(text: string, secrets: Iterable<string>): string {
  if (text.length > MAX_SEARCHED) return HIDDEN
  const known = secrets instanceof UsedSecrets ? secrets : undefined
  const all = [...secrets].flatMap((secret) =>
    mayHold(text, secret) ? (known?.formsOf(secret) ?? formsOf(secret)) : [],
  )
  let scrubbed = text
  for (const { base64, spellings } of all) {
    for (const core of base64) scrubbed = hideBase64Around(scrubbed, core)
    for (const spelling of spellings) scrubbed = scrubbed.replaceAll(spelling, MARK)
  }
  const layers = layersOf(scrubbed.replaceAll(MARK, ' '))
  const isReadable = layers?.some((layer) =>
    all.some(({ read }) => read.some((form) => layer.includes(form))),
  )
  return isReadable === false ? scrubbed.replaceAll(MARK, HIDDEN) : HIDDEN // in a spelling that is none of the above
}

/** No form is shorter than what can be read of the secret, and a text grows at most to its double when it is read. */
function mayHold(text: string, secret: string): boolean {
  return text.length * 2 >= unbroken(secret).length
}

function formsOf(secret: string): Forms {
  const base64 = base64Cores(secret)
  const hex = Buffer.from(secret).toString('hex')
  const read = [unbroken(secret), ...base64, ...(hex.length < LEAST_ENCODED ? [] : [hex])]
  return { spellings: spellings(secret), base64, read: read.filter((form) => form !== '') }
}

/** The ways to write a secret in a text. Longest first, so that none leaves a rest of another. */
function spellings(secret: string): string[] {
  const base64 = Buffer.from(secret).toString('base64')
  return longestFirst([
    ...escapes(secret),
    base64,
    base64.replace(/=+$/, ''),
    Buffer.from(secret).toString('base64url'),
  ])
}

/** The same, but for base64. */
function escapes(secret: string): string[] {
  return longestFirst([
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURI(secret.toWellFormed()),
    encodeURIComponent(secret.toWellFormed()),
    new URLSearchParams({ s: secret }).toString().slice(2),
    secret.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;'),
  ])
}

function longestFirst(texts: readonly string[]): string[] {
  return [...new Set(texts)].filter((text) => text !== '').sort((a, b) => b.length - a.length)
}

/** What base64 makes of a secret within a longer text: it depends on where among three bytes the secret begins. */
function base64Cores(secret: string): string[] {
  const cores = escapes(secret).flatMap((text) =>
    [0, 1, 2].flatMap((before) => {
      const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text)])
      const [from, to] = [Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6)]
      return [bytes.toString('base64').slice(from, to), bytes.toString('base64url').slice(from, to)]
    }),
  )
  return longestFirst(cores).filter((core) => core.length >= LEAST_ENCODED)
}

/** Replaces all of the base64 around a part of it: the rest has other secrets, or the user name beside one. */
function hideBase64Around(text: string, core: string): string {
  let hidden = ''
  let done = 0
  for (let at = text.indexOf(core); at !== -1; at = text.indexOf(core, done)) {
    let from = at
    let to = at + core.length
    while (from > done && isBase64(text.charCodeAt(from - 1))) from -= 1
    while (to < text.length && isBase64(text.charCodeAt(to))) to += 1
    hidden += text.slice(done, from) + MARK
    done = to
  }
  return hidden + text.slice(done)
}

/** Letters, digits and `+ - / _ =`. */
function isBase64(code: number): boolean {
  const isDigit = code >= 0x30 && code <= 0x39
  const isLetter = (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)
  return isDigit || isLetter || '+-/_='.includes(String.fromCharCode(code))
}

/** What somebody sees who reads the escapes of a text, again and again; undefined where that has no end. */
function layersOf(text: string): string[] | undefined {
  const layers: string[] = []
  let read = text
  for (let times = 0; times < MAX_ESCAPES; times += 1) {
    const plain = unbroken(read)
    layers.push(plain, plain.toLowerCase())
    const next = unescaped(read)
    if (next === read) return layers
    read = next
  }
  return undefined
}

/** Without characters that nobody sees. */
function unbroken(text: string): string {
  return text.replace(/\p{C}+/gu, '')
}

/** The text with every percent, HTML and JavaScript escape read once. */
function unescaped(text: string): string {
  const read = (digits: string, base: number): string => {
    const code = Number.parseInt(digits, base)
    return code <= 0x10ffff ? String.fromCodePoint(code) : ''
  }
  const plain = text
    .replace(/&#x([\da-f]{1,8});?/gi, (_, digits: string) => read(digits, 16))
    .replace(/&#(\d{1,8});?/g, (_, digits: string) => read(digits, 10))
    .replace(/&([a-z]{2,6});/gi, (entity, name: string) => ENTITIES[name.toLowerCase()] ?? entity)
    .replace(/[\\%]u([\da-f]{4})/gi, (_, digits: string) => read(digits, 16))
    .replace(/\\u\{([\da-f]{1,6})\}/gi, (_, digits: string) => read(digits, 16))
    .replace(/\\x([\da-f]{2})/gi, (_, digits: string) => read(digits, 16))
    .replace(/\\(.)/g, '$1')
  return plain.replace(/(?:%[\da-f]{2})+/gi, (bytes) =>
    Buffer.from(bytes.replaceAll('%', ''), 'hex').toString('utf8'),
  )
}

const ENTITIES: Partial<Record<string, string>> = {
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
 * cause chain, scrubbed, and nothing else: such errors may carry whole requests.
 */
export function scrubbedCause(error: unknown, secrets: Iterable<string>, depth = 0): Error | undefined {
  if (typeof error !== 'object' || error === null || depth === MAX_CAUSES) return undefined
  const text = (key: string): string | undefined => {
    const value = readSafely(() => Reflect.get(error, key) as unknown)
    return value === undefined ? undefined : scrub(readSafely(() => String(value)) ?? '', secrets)
  }
  const first = readSafely(() => (Reflect.get(error, 'errors') as readonly unknown[])[0])
  const inner = scrubbedCause(
    readSafely(() => Reflect.get(error, 'cause') as unknown) ?? first,
    secrets,
    depth + 1,
  )
  const copy = new Error(text('message') ?? '', inner && { cause: inner })
  const hidden = { configurable: true, enumerable: false, writable: true }
  Object.defineProperty(copy, 'name', { ...hidden, value: text('name') ?? 'Error' })
  const stack = text('stack')
  if (stack !== undefined) Object.defineProperty(copy, 'stack', { ...hidden, value: stack })
  if (typeof readSafely(() => Reflect.get(error, 'code') as unknown) === 'string')
    Object.assign(copy, { code: text('code') })
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
export function shownUrl(url: string | URL, secrets: Iterable<string> = []): string {
  if (!URL.canParse(String(url))) return '(not a URL)'
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${scrub(pathname, secrets)}`
}
