/** One request and its answer on the wire: the body in, a wait, the answer out, whatever the client does meanwhile. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { OrderedFault } from './faults.ts'
import type { RecordedRequest } from './recorded.ts'

/** An answer, ready to be sent. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** The error that it tells of. */
  readonly error?: { readonly code: string; readonly description?: string }
}

/** The most bytes of a request that are kept; with more it is answered 413. */
const MAX_REQUEST_BYTES = 10 * 1024 * 1024

/** The most bytes of a request that are read (and thrown away) so that its client can read the 413. */
const MAX_DISCARDED_BYTES = 10 * MAX_REQUEST_BYTES

/** An answer with an error code. What it says besides is in its headers. */
export function errorAnswer(
  status: number,
  error: NonNullable<Answer['error']>,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return { ...jsonAnswer(status, { error: error.code }, headers), error }
}

/** An answer in JSON. */
export function jsonAnswer(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: Buffer.from(JSON.stringify(body)),
  }
}

/** A request of a client that may leave at any time. */
export class Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** What is noted of it. */
  readonly recorded: RecordedRequest
  /** The fault that it meets. */
  readonly ordered: OrderedFault | undefined
  readonly #onStatus: (status: number) => void

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    noted: {
      readonly recorded: RecordedRequest
      readonly ordered: OrderedFault | undefined
      readonly onStatus: (status: number) => void
    },
  ) {
    this.request = request
    this.response = response
    this.recorded = noted.recorded
    this.ordered = noted.ordered
    this.#onStatus = noted.onStatus
    // A write to a connection that has gone fails here; what the client misses is its own affair.
    response.on('error', () => {})
  }

  /** Whether the client has gone. */
  get gone(): boolean {
    return this.request.socket.destroyed
  }

  /** Reads the body: as far as it came where the client left, and undefined where it is too long. */
  readBody(): Promise<Buffer | undefined> {
    const { promise, resolve } = Promise.withResolvers<Buffer | undefined>()
    const chunks: Buffer[] = []
    let bytes = 0
    this.request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= MAX_REQUEST_BYTES) chunks.push(chunk)
      else chunks.length = 0
      if (bytes > MAX_DISCARDED_BYTES) this.request.destroy()
    })
    const over = (): void => resolve(bytes <= MAX_REQUEST_BYTES ? Buffer.concat(chunks) : undefined)
    this.request.on('end', over)
    this.request.on('close', over) // alone where the client left
    return promise
  }

  /** Resolves after `ms`, or as soon as the connection is closed. Leaves no timer and no listener behind. */
  wait(ms: number): Promise<void> {
    if (ms <= 0 || this.gone) return Promise.resolve()
    const { socket } = this.request
    return new Promise((resolve) => {
      const over = (): void => {
        clearTimeout(timer)
        socket.off('close', over)
        resolve()
      }
      const timer = setTimeout(over, Math.ceil(ms)) // a fraction of a ms would be cut off
      socket.on('close', over)
    })
  }

  /** Resolves when the answer is out, or the connection is closed before. */
  over(): Promise<void> {
    const { response } = this
    const { socket } = this.request
    return new Promise((resolve) => {
      const over = (): void => {
        response.off('close', over)
        socket.off('close', over)
        resolve()
      }
      response.on('close', over)
      // Not every version of Node.js closes the responses whose turn had not come (HTTP/1.1 pipelining).
      socket.on('close', over)
    })
  }

  /** Sends status and headers. */
  begin(status: number, headers: Readonly<Record<string, string>>): void {
    this.recorded.status = status
    this.#onStatus(status)
    this.response.writeHead(status, {
      ...headers,
      'x-request-id': String(this.recorded.id),
      ...(this.ordered === undefined ? undefined : { 'x-sandbox-fault': this.ordered.id }),
    })
  }

  /** Sends status and headers for a body of which the caller sends as much as it likes. */
  beginSized({ status, headers, body, error }: Answer): void {
    if (error !== undefined) this.recorded.error = error.code
    if (error?.description !== undefined) this.recorded.errorDescription = error.description
    const bodiless = status === 204 || status === 304
    this.begin(status, bodiless ? headers : { 'content-length': String(body.length), ...headers })
  }

  send(answer: Answer): void {
    if (this.gone) return
    this.beginSized(answer)
    this.response.end(answer.body)
  }
}
