/** The faults of the sandbox: their check, the queues in which they wait, and what a client gets from each. */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import * as z from 'zod/mini'
import { strict } from '../base/schema.ts'
import { type Answer, type Exchange, jsonAnswer } from './exchange.ts'
import { checked, durationMs } from './settings.ts'
import type { Fault, SandboxTarget } from './types.ts'

const STATUS = 'must be a status from 200 to 599'
const REDIRECT = 'must be a status from 300 to 399'
const BYTES = 'must be a whole number of at least 1'
const TIMES = 'must be a whole number of at least 1, or Infinity'
const PATH = "must be a path that begins with '/', without a query"

const text = z.string('must be a string')
const status = z.int(STATUS).check(z.gte(200, STATUS), z.lte(599, STATUS))

const shape: z.ZodMiniType<Fault> = z.discriminatedUnion(
  'kind',
  [
    strict({
      kind: z.literal('status'),
      status,
      retryAfter: z.optional(z.union([z.number(), text], 'must be seconds or a date')),
      headers: z.optional(z.record(text, text)),
      body: z.optional(z.unknown()),
    }),
    strict({
      kind: z.literal('hang'),
      at: z.optional(z.enum(['headers', 'body'], "must be 'headers' or 'body'")),
      durationMs: z.optional(durationMs),
    }),
    strict({ kind: z.literal('reset') }),
    strict({ kind: z.literal('slow-body'), durationMs }),
    strict({ kind: z.literal('truncated-body') }),
    strict({
      kind: z.literal('huge-body'),
      bytes: z.optional(z.int(BYTES).check(z.gte(1, BYTES))),
      gzip: z.optional(z.boolean('must be true or false')),
    }),
    strict({ kind: z.literal('json'), body: z.unknown(), status: z.optional(status) }),
    strict({
      kind: z.literal('text'),
      body: text,
      status: z.optional(status),
      contentType: z.optional(text),
    }),
    strict({
      kind: z.literal('redirect'),
      location: text,
      status: z.optional(z.int(REDIRECT).check(z.gte(300, REDIRECT), z.lte(399, REDIRECT))),
    }),
  ],
  'must be one of the kinds of a fault',
)

const order = strict({
  target: z.enum(['token', 'merchant', 'in-store'], "must be 'token', 'merchant' or 'in-store'"),
  fault: shape,
  times: z.optional(z.custom<number>((times) => times === Infinity || Number(times) >= 1, TIMES)),
  path: z.optional(z.string(PATH).check(z.regex(/^\/[^?#]*$/, PATH))),
})

interface QueuedFault {
  /** What `fail` returned. */
  readonly id: string
  readonly target: SandboxTarget
  readonly fault: Fault
  readonly path: string | undefined
  timesLeft: number
}

/** The faults that wait for the requests of one environment. */
export class FaultQueue {
  #queued: QueuedFault[] = []
  #lastId = 0

  /** @throws {@link ConfigurationError} with every problem */
  add(given: unknown): string {
    const { target, fault, path, times = 1 } = checked('The fault', 'fault', order, given)
    this.#lastId += 1
    const id = `fault-${this.#lastId}`
    this.#queued.push({ id, target, fault, path, timesLeft: times })
    return id
  }

  /** The fault for the request that has just arrived. */
  take(target: SandboxTarget | undefined, pathname: string): QueuedFault | undefined {
    const next = this.#queued.find(
      (queued) => queued.target === target && (queued.path === undefined || isBelow(pathname, queued.path)),
    )
    if (next === undefined) return undefined
    next.timesLeft -= 1
    if (next.timesLeft === 0) this.#queued.splice(this.#queued.indexOf(next), 1)
    return next
  }

  clear(target: SandboxTarget | undefined): void {
    this.#queued = this.#queued.filter((queued) => target !== undefined && queued.target !== target)
  }
}

/** Whether a path is equal to another one, or continues it at a `/`. */
export function isBelow(pathname: string, path: string): boolean {
  return `${pathname}/`.startsWith(path.endsWith('/') ? path : `${path}/`)
}

/** Creates the usual response of a request. */
export type UsualAnswer = () => Answer | Promise<Answer>

/** Responds with a fault. The usual response is created only if the fault needs it. */
export async function answerWithFault(exchange: Exchange, fault: Fault, usual: UsualAnswer): Promise<void> {
  switch (fault.kind) {
    case 'status': {
      const { status, retryAfter, headers = {}, body } = fault
      const given = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
      const all = {
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(retryAfter !== undefined && { 'retry-after': String(retryAfter) }),
        ...Object.fromEntries(given),
      }
      const text = body === undefined ? '' : JSON.stringify(body)
      return exchange.send({ status, headers: all, body: Buffer.from(text) })
    }
    case 'json':
      return exchange.send(jsonAnswer(fault.status ?? 200, fault.body))
    case 'text': {
      const headers = { 'content-type': fault.contentType ?? 'text/plain; charset=utf-8' }
      return exchange.send({ status: fault.status ?? 200, headers, body: Buffer.from(fault.body) })
    }
    case 'redirect': {
      const headers = { location: fault.location }
      return exchange.send({ status: fault.status ?? 307, headers, body: Buffer.alloc(0) })
    }
    case 'reset':
      exchange.request.socket.resetAndDestroy()
      return
    case 'hang':
      return hang(exchange, fault, usual)
    case 'truncated-body':
      return sendHalf(exchange, await usual(), () => exchange.request.socket.destroySoon())
    case 'slow-body':
      return sendSlowly(exchange, await usual(), fault.durationMs)
    case 'huge-body':
      return sendHuge(exchange, await usual(), fault.bytes ?? TEN_MEBIBYTES, fault.gzip ?? false)
  }
}

type Hang = Extract<Fault, { readonly kind: 'hang' }>

async function hang(exchange: Exchange, { at, durationMs }: Hang, usual: UsualAnswer): Promise<void> {
  const answer = at === 'body' ? await usual() : undefined
  if (answer !== undefined) sendHalf(exchange, answer, () => {})
  if (durationMs === undefined) return
  await exchange.wait(durationMs)
  if (exchange.gone) return
  if (answer === undefined) exchange.send(await usual())
  else exchange.response.end(secondHalf(answer))
}

function sendHalf(exchange: Exchange, answer: Answer, onSent: () => void): void {
  if (exchange.begin(answer)) exchange.response.write(firstHalf(answer), onSent)
}

function firstHalf({ body }: Answer): Buffer {
  return body.subarray(0, Math.floor(body.length / 2))
}

function secondHalf({ body }: Answer): Buffer {
  return body.subarray(Math.floor(body.length / 2))
}

const PIECES = 20

async function sendSlowly(exchange: Exchange, answer: Answer, durationMs: number): Promise<void> {
  if (!exchange.begin(answer)) return
  const { response } = exchange
  const { body } = answer
  response.flushHeaders()
  const startedAt = performance.now()
  const bytes = Math.ceil(body.length / PIECES)
  for (let sent = 0; sent < body.length; sent += bytes) {
    const dueAt = startedAt + (durationMs * Math.min(sent + bytes, body.length)) / body.length
    await exchange.wait(dueAt - performance.now())
    if (exchange.gone) return
    response.write(body.subarray(sent, sent + bytes))
  }
  response.end()
}

const TEN_MEBIBYTES = 10 * 1024 * 1024

async function sendHuge(exchange: Exchange, answer: Answer, bytes: number, gzip: boolean): Promise<void> {
  const headers = { 'content-type': 'application/json', ...(gzip && { 'content-encoding': 'gzip' }) }
  if (!exchange.begin({ status: 200, headers })) return
  const content = Readable.from(padded(answer.status === 200 ? answer.body : Buffer.from('{}'), bytes))
  const { response } = exchange
  // The pipeline rejects if the client leaves before the end, which it may.
  await (gzip ? pipeline(content, createGzip(), response) : pipeline(content, response)).catch(() => {})
}

const PADDING = Buffer.alloc(64 * 1024, 'x')

/** A JSON object with one more member, which pads it to a number of bytes. */
function* padded(object: Buffer, bytes: number): Generator<Buffer> {
  const members = object.toString().slice(1, -1)
  const head = Buffer.from(`{${members}${members === '' ? '' : ','}"padding":"`)
  yield head
  for (let left = bytes - head.length - 2; left > 0; left -= PADDING.length) yield PADDING.subarray(0, left)
  yield Buffer.from('"}')
}
