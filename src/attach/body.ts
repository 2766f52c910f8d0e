/** Request bodies: whether one can be sent again with the same bytes, and a stream that fails while its call waits. */
import { Readable } from 'node:stream'

const SENDABLE_AGAIN = new Set(['Blob', 'File', 'FormData', 'URLSearchParams', 'ArrayBuffer'])

/**
 * Whether a body yields the same bytes a second time. Streams, generators and bodies of the form-data package are
 * consumed by the first send; unknown kinds are treated like them.
 */
export function canSendAgain(body: unknown): boolean {
  if (!isObject(body)) return true // text, or no body
  if (ArrayBuffer.isView(body)) return true
  if ('pipe' in body || Symbol.asyncIterator in body) return false
  return SENDABLE_AGAIN.has(Object.prototype.toString.call(body).slice('[object '.length, -1))
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** A stream of Node.js, or of the form-data package. */
export interface NodeStream {
  on(event: string, listener: (error?: unknown) => void): void
  off(event: string, listener: (error?: unknown) => void): void
  resume(): void
  destroy(error?: unknown): void
}

export function isNodeStream(body: unknown): body is NodeStream {
  return isObject(body) && 'pipe' in body && 'off' in body
}

/** Whether a send has consumed a body. Node-fetch makes the stream that is the body of a Request anew from a string or a Blob. */
export function isConsumed(body: unknown): boolean {
  return !canSendAgain(body) && !(isNodeStream(body) && (body as Readable).readableFlowing === null)
}

/** A ReadableStream of any realm: the global class is missing in jsdom. */
export function isWebStream(body: unknown): body is ReadableStream {
  return isObject(body) && Object.prototype.toString.call(body) === '[object ReadableStream]'
}

/**
 * Watches a body while its call waits for a token: a stream that fails meanwhile has no other listener and would end the
 * process, and a client that gets it afterwards would wait forever for its end. Returns a function that returns the body
 * to send: the same one, or one that fails in the same way.
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
