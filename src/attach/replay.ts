/** Can this body be sent again, and with the same bytes? */
import { isFormData, multipartBlob } from './multipart.ts'

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
