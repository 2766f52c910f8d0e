/** Request bodies: whether one can be sent again with the same bytes, and what happens to it while its call waits. */
import { Readable } from 'node:stream'

const SENDABLE_AGAIN = new Set([
  'Blob',
  'File',
  'FormData',
  'URLSearchParams',
  'ArrayBuffer',
  'SharedArrayBuffer',
])

/**
 * Whether a body yields the same bytes a second time. Streams, generators and bodies of the form-data package are
 * consumed by the first send; unknown kinds are treated like them.
 */
export function canSendAgain(body: unknown): boolean {
  if (body === undefined || body === null || typeof body === 'string') return true
  if (typeof body !== 'object') return false
  if (ArrayBuffer.isView(body)) return true
  if ('pipe' in body || Symbol.asyncIterator in body) return false
  return SENDABLE_AGAIN.has(Object.prototype.toString.call(body).slice('[object '.length, -1))
}

type Body = NonNullable<RequestInit['body']>

/**
 * A snapshot of the body, so that later changes of the caller's do not count: fetch makes such a copy itself, but only
 * when it sends. A form gets its boundary here, and so the same bytes each time.
 */
export function snapshotOf(body: Body): Body {
  if (isDetached(body)) return body
  if (Buffer.isBuffer(body)) return Buffer.from(body)
  if (isFormData(body)) return multipartBlob(body)
  if (body instanceof URLSearchParams) return new URLSearchParams(body)
  if (body instanceof ArrayBuffer) return body.slice()
  // A caller's class may take anything in its constructor, so only the bytes are copied.
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice()
  return body
}

/** Whether a buffer was transferred; the client decides what to do with it. */
function isDetached(body: Body): boolean {
  const buffer = ArrayBuffer.isView(body) ? body.buffer : body
  return buffer instanceof ArrayBuffer && buffer.detached
}

/** A stream of Node.js, or of the form-data package. */
export interface NodeStream {
  on(event: string | symbol, listener: (error?: unknown) => void): void
  off(event: string | symbol, listener: (error?: unknown) => void): void
}

/**
 * Watches a body while its call waits for a token: a stream that fails meanwhile has no other listener and would end the
 * process.
 *
 * @returns a function that ends the watch and returns the body to send: the same one, or one that fails in the same way
 */
export function watchBody(body: unknown): () => unknown {
  if (!isNodeStream(body)) return () => body
  let ended: { readonly error: unknown } | undefined
  const onEnd = (error?: unknown): void => {
    ended ??= { error }
  }
  body.on('error', onEnd)
  body.on('close', onEnd)
  // The listeners stay: fetch has none for errors before its connection is open.
  return () => (ended === undefined ? body : failing(ended.error as Error | undefined))
}

function failing(error: Error | undefined): Readable {
  return new Readable({
    read() {
      this.destroy(error)
    },
  })
}

/** Whether a body is a stream of Node.js or of the form-data package. */
export function isNodeStream(body: unknown): body is NodeStream & { destroy?(): void } {
  return (
    typeof body === 'object' &&
    body !== null &&
    'pipe' in body &&
    'on' in body &&
    typeof body.on === 'function' &&
    'off' in body
  )
}

/**
 * A form as a multipart body (RFC 7578, encoded as the HTML standard says), with its type. Files are referenced, not
 * read.
 */
export function multipartBlob(form: FormData, boundary = `merchant-auth-${crypto.randomUUID()}`): Blob {
  const parts: (string | Blob)[] = []
  for (const [name, value] of form) {
    const disposition = `--${boundary}\r\nContent-Disposition: form-data; name="${escaped(withCrLf(name))}"`
    if (typeof value === 'string') {
      parts.push(`${disposition}\r\n\r\n${withCrLf(value)}\r\n`)
    } else {
      const type = value.type === '' ? 'application/octet-stream' : value.type
      parts.push(
        `${disposition}; filename="${escaped(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`,
        value,
        '\r\n',
      )
    }
  }
  return new Blob([...parts, `--${boundary}--\r\n`], { type: `multipart/form-data; boundary=${boundary}` })
}

function withCrLf(text: string): string {
  return text.replace(/\r\n|\r|\n/g, '\r\n')
}

function escaped(name: string): string {
  return name.replace(/\n/g, '%0A').replace(/\r/g, '%0D').replace(/"/g, '%22')
}

/** The boundary in a Content-Type (RFC 2046 §5.1.1), in lower case like the type of a Blob. */
export function boundaryOf(contentType: string): string | undefined {
  return /^\s*multipart\/form-data\s*;(?:.*;)?\s*boundary="?([^";]+)/i
    .exec(contentType)?.[1]
    ?.trim()
    .toLowerCase()
}

/** Whether a body is the platform's FormData, not one of the form-data package. */
export function isFormData(body: unknown): body is FormData {
  return body instanceof FormData
}
