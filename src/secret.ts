/** Keeps secrets out of what is printed: scrubbed text, and copies of foreign errors that carry nothing else. */

const HIDDEN = '[hidden]'
const MAX_CAUSES = 5
/** How often a text may be escaped anew before nothing of it is shown. */
const MAX_ESCAPES = 5
/** Fewer characters of base64 may stand in any text by chance. */
const LEAST_BASE64 = 6
/** How many secrets are remembered: client secrets and tokens, also of those that were replaced a while ago. */
const MOST_SECRETS = 16

/** The client secrets and tokens used last, to be taken out of whatever is said. */
export class UsedSecrets implements Iterable<string> {
  readonly #values = new Set<string>()

  /** Remembers a secret as the one used last. */
  add(secret: string): void {
    this.#values.delete(secret)
    this.#values.add(secret)
    for (const oldest of this.#values) if (this.#values.size > MOST_SECRETS) this.#values.delete(oldest)
  }

  [Symbol.iterator](): Iterator<string> {
    return this.#values.values()
  }
}

/** The text with every spelling of the secrets replaced. */
export function scrub(text: string, secrets: Iterable<string>): string {
  let scrubbed = text
  for (const secret of secrets) {
    for (const core of base64Cores(secret)) scrubbed = hideBase64Around(scrubbed, core)
    for (const spelling of spellings(secret)) scrubbed = scrubbed.replaceAll(spelling, HIDDEN)
    if (isReadableIn(scrubbed, secret)) return HIDDEN // in a spelling that is none of the above
  }
  return scrubbed
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
  return longestFirst(cores).filter((core) => core.length >= LEAST_BASE64)
}

/** Replaces all of the base64 around a part of it: the rest has other secrets, or the user name beside one. */
function hideBase64Around(text: string, core: string): string {
  const literal = core.replaceAll('+', '\\+')
  return text.replace(new RegExp(`[\\w+/-]*${literal}[\\w+/-]*={0,2}`, 'g'), HIDDEN)
}

/** Whether somebody who reads escapes, in whatever number and mixture, finds the secret in the text. */
function isReadableIn(text: string, secret: string): boolean {
  const hex = Buffer.from(secret).toString('hex')
  const finds = [unbroken(secret), ...base64Cores(secret), ...(hex.length < LEAST_BASE64 ? [] : [hex])]
  let read = text
  for (let times = 0; times < MAX_ESCAPES; times += 1) {
    const plain = unbroken(read)
    if (finds.some((find) => find !== '' && (plain.includes(find) || plain.toLowerCase().includes(find))))
      return true
    const next = unescaped(read)
    if (next === read) return false
    read = next
  }
  return true
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
    .replace(/&(amp|lt|gt|quot|apos);/gi, (_, name: string) => ENTITIES[name.toLowerCase()] ?? '')
    .replace(/\\u\{?([\da-f]{4,6})\}?/gi, (_, digits: string) => read(digits, 16))
    .replace(/\\(.)/g, '$1')
  return plain.replace(/(?:%[\da-f]{2})+/gi, (bytes) =>
    Buffer.from(bytes.replaceAll('%', ''), 'hex').toString('utf8'),
  )
}

const ENTITIES: Partial<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

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

/** The place of a URL that may be shown: without user info, query and fragment. */
export function shownUrl(url: string | URL): string {
  if (!URL.canParse(String(url))) return '(not a URL)'
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname}`
}
