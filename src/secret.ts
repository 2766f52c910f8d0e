/** Keeps secrets out of what is printed: scrubbed text, and copies of foreign errors that carry nothing else. */

const HIDDEN = '[hidden]'
const MAX_CAUSES = 5

/** Every spelling in which a secret may come back in a text. Longest first, so that none leaves a rest of another. */
function spellings(secret: string): string[] {
  const base64 = Buffer.from(secret, 'utf8').toString('base64')
  const all = new Set([
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURI(wellFormed(secret)),
    encodeURIComponent(wellFormed(secret)),
    new URLSearchParams({ s: secret }).toString().slice(2),
    secret.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;'),
    base64,
    base64.replace(/=+$/, ''),
    Buffer.from(secret, 'utf8').toString('base64url'),
  ])
  return [...all].filter((text) => text !== '').sort((a, b) => b.length - a.length)
}

function wellFormed(text: string): string {
  return text.toWellFormed()
}

/** The text with every spelling of the secrets replaced. */
export function scrub(text: string, secrets: Iterable<string>): string {
  let scrubbed = text
  for (const secret of secrets) {
    for (const spelling of spellings(secret)) scrubbed = scrubbed.replaceAll(spelling, HIDDEN)
    if (unescaped(scrubbed).includes(secret)) return HIDDEN // in a spelling that is none of the above
  }
  return scrubbed
}

/** The text with every percent, HTML and JavaScript escape read, in whatever case and mixture. */
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
  const { name, message, stack, code, cause, errors } = error as Partial<Record<string, unknown>>
  const first = Array.isArray(errors) ? errors[0] : undefined
  const inner = scrubbedCause(cause ?? first, secrets, depth + 1)
  const copy = new Error(scrub(String(message ?? ''), secrets), inner && { cause: inner })
  const hidden = { configurable: true, enumerable: false, writable: true }
  Object.defineProperty(copy, 'name', { ...hidden, value: scrub(String(name ?? 'Error'), secrets) })
  if (typeof stack === 'string') {
    Object.defineProperty(copy, 'stack', { ...hidden, value: scrub(stack, secrets) })
  }
  if (typeof code === 'string') Object.assign(copy, { code: scrub(code, secrets) })
  return copy
}

/** The place of a URL that may be shown: without user info, query and fragment. */
export function shownUrl(url: string | URL): string {
  if (!URL.canParse(String(url))) return '(not a URL)'
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname}`
}
