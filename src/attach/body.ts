/** Request bodies: can one be sent again, with the same bytes, and what becomes of it while its call waits? */
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
 * Whether a body yields the same bytes a second time. Streams, generators and the form-data package's bodies
 * are used up by the first; what is not known is taken for one of them.
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
 * The body as it is now, so that what the caller does with it afterwards changes nothing: fetch takes such a copy
 * itself, but only when it sends. A form gets its boundary here, and so the same bytes each time.
 */
export function snapshotOf(body: Body): Body {
  if (typeof body === 'string' || isDetached(body)) return body
  if (Buffer.isBuffer(body)) return Buffer.from(body)
  if (isFormData(body)) return multipartBlob(body)
  if (body instanceof URLSearchParams) return new URLSearchParams(body)
  if (body instanceof ArrayBuffer) return body.slice()
  // A class of the caller's own may take anything in its constructor: the bytes are what counts.
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice()
  return body
}

/** Whether a buffer was transferred away. What becomes of it is for the client to decide. */
function isDetached(body: Body): boolean {
  const buffer = ArrayBuffer.isView(body) ? body.buffer : body
  return buffer instanceof ArrayBuffer && buffer.detached
}

interface NodeStream {
  on(event: 'error' | 'close', listener: (error?: unknown) => void): void
  off(event: 'error' | 'close', listener: (error?: unknown) => void): void
}

/**
 * Looks after a body while its call waits for a token. A stream that fails meanwhile has nobody else to listen to it, and
 * would end the process.
 *
 * @returns ends that. It gives the body to send: the same one, or one that fails as it did when it is read
 */
export function keepForLater(body: unknown): () => unknown {
  if (!isNodeStream(body)) return () => body
  let ended: { readonly error: unknown } | undefined
  const onEnd = (error?: unknown): void => {
    ended ??= { error }
  }
  body.on('error', onEnd)
  body.on('close', onEnd)
  return () => {
    body.off('error', onEnd)
    body.off('close', onEnd)
    return ended === undefined ? body : failing(ended.error as Error | undefined)
  }
}

function failing(error: Error | undefined): Readable {
  return new Readable({
    read() {
      this.destroy(error)
    },
  })
}

/** Whether a body is a stream of node's, or of the form-data package. */
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
 * The multipart body of a form (RFC 7578, in the form that the HTML standard gives it), with its type. Files are
 * referred to, not read.
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

/** The boundary that a Content-Type names (RFC 2046 §5.1.1), in lower case, as the type of a Blob is. */
export function boundaryOf(contentType: string): string | undefined {
  return /^\s*multipart\/form-data\s*;(?:.*;)?\s*boundary="?([^";]+)/i
    .exec(contentType)?.[1]
    ?.trim()
    .toLowerCase()
}

/** Whether a body is a form of the platform's own, not one of the form-data package. */
export function isFormData(body: unknown): body is FormData {
  return body instanceof FormData
}
