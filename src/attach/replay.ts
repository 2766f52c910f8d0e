/** Can this body be sent again? */

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
