/** The body of a rejected response while its call waits for another token: it is read, so that its connection is free. */
import { pipeline, Readable, Transform } from 'node:stream'
import { startTimer } from '../base/clock.ts'
import type { NodeStream } from './body.ts'

/** A larger body is not read while its call waits: the caller gets the response at once. */
export const MAX_HELD_BYTES: number = 1024 * 1024
/** How long (ms) the rest of a body that the caller does not get is read, so that its connection can be reused. */
export const MAX_DRAINING_MS = 1_000

/** The body of a rejected response while its call waits. */
export interface HeldBody {
  /** Resolves if the body is too large. */
  readonly overflow: Promise<undefined>
  /** Called where the caller does not get the response: frees its connection. */
  discard(): void
}

/** Whether a `Content-Length` says that a body is too large. */
export function isTooLarge(contentLength: unknown): boolean {
  return Number(contentLength) > MAX_HELD_BYTES
}

/** Reads one copy of a body. The other one is for the caller, and is canceled where the caller does not get it. */
export function holdCopy(copy: ReadableStream<Uint8Array>, cancelOther: () => Promise<unknown>): HeldBody {
  const drain = startDrain(copy)
  const overflow = drain.ended.then((isWhole) => (isWhole ? new Promise<never>(() => {}) : undefined))
  const discard = (): void => {
    cancelOther().catch(() => {})
    drain.limitTime()
  }
  return { overflow, discard }
}

/** Reads a stream of Node.js into `body`, which is for the caller in its place. */
export function holdStream(stream: NodeStream): HeldBody & { readonly body: Readable } {
  const { promise: overflow, resolve } = Promise.withResolvers<undefined>()
  let bytes = 0
  const body = new Transform({
    readableHighWaterMark: MAX_HELD_BYTES + 1,
    transform(chunk: Uint8Array, _encoding, callback) {
      bytes += chunk.byteLength
      if (bytes > MAX_HELD_BYTES) resolve(undefined)
      callback(null, chunk)
    },
  })
  pipeline(stream as Readable, body, () => {}) // an error reaches those who read the body
  return { ...holdUnread(body), overflow, body }
}

/** For a body that its client has read, or a stream of Node.js that no other one can replace. */
export function holdUnread(stream?: NodeStream): HeldBody {
  stream?.on('error', () => {}) // without a listener, an error ends the process
  const discard = (): void => {
    if (stream !== undefined) startDrain(Readable.toWeb(stream as Readable) as ReadableStream).limitTime()
  }
  return { overflow: new Promise(() => {}), discard }
}

function startDrain(body: ReadableStream<Uint8Array>) {
  const reader = body.getReader()
  const cancel = (): void => void reader.cancel().catch(() => {})
  const ended = readToEnd(reader).catch(() => true)
  ended.then((isWhole) => isWhole || cancel())
  const limitTime = (): void => void ended.then(startTimer(cancel, MAX_DRAINING_MS))
  return { ended, limitTime }
}

/** Whether the body ends within the limit. */
async function readToEnd(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<boolean> {
  for (let bytes = 0; bytes <= MAX_HELD_BYTES; ) {
    const { done, value } = await reader.read()
    if (done) return true
    bytes += value.byteLength
  }
  return false
}
