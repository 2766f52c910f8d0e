/** Faults on the wire: what a client gets instead of the usual answer, or of a part of it. */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { type Answer, type Exchange, jsonAnswer } from './exchange.ts'
import type { Fault } from './faults.ts'

type FaultOf<K extends Fault['kind']> = Extract<Fault, { readonly kind: K }>

const TEN_MEBIBYTES = 10 * 1024 * 1024
const PADDING = Buffer.alloc(64 * 1024, 'x')
const DRIPS = 20

/** Answers with a fault. Where it needs the usual answer, and only there, that one is made. */
export async function answerWithFault(
  exchange: Exchange,
  fault: Fault,
  usual: () => Answer | Promise<Answer>,
): Promise<void> {
  switch (fault.kind) {
    case 'status':
      return exchange.send(statusAnswer(fault))
    case 'json':
      return exchange.send(jsonAnswer(fault.status ?? 200, fault.body))
    case 'text':
      return exchange.send({
        status: fault.status ?? 200,
        headers: { 'content-type': fault.contentType ?? 'text/plain; charset=utf-8' },
        body: Buffer.from(fault.body),
      })
    case 'redirect':
      return exchange.send({
        status: fault.status ?? 307,
        headers: { location: fault.location },
        body: Buffer.alloc(0),
      })
    case 'reset':
      exchange.request.socket.resetAndDestroy()
      return
    case 'hang':
      if (fault.at === 'body') hangAtBody(exchange, await usual())
      return
    case 'slow-body':
      return dripBody(exchange, await usual(), fault.durationMs)
    case 'truncated-body':
      return truncateBody(exchange, await usual())
    case 'huge-body':
      return sendHugeBody(exchange, await usual(), fault)
  }
}

function statusAnswer({ status, retryAfter, headers = {}, body }: FaultOf<'status'>): Answer {
  const given = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  return {
    status,
    headers: {
      ...(body === undefined ? undefined : { 'content-type': 'application/json' }),
      ...(retryAfter === undefined ? undefined : { 'retry-after': String(retryAfter) }),
      ...Object.fromEntries(given),
    },
    body: body === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(body)),
  }
}

function firstHalf(body: Buffer): Buffer {
  return body.subarray(0, Math.floor(body.length / 2))
}

function hangAtBody(exchange: Exchange, answer: Answer): void {
  if (exchange.gone) return
  exchange.beginSized(answer)
  exchange.response.write(firstHalf(answer.body))
}

function truncateBody(exchange: Exchange, answer: Answer): void {
  if (exchange.gone) return
  exchange.beginSized(answer)
  exchange.response.write(firstHalf(answer.body), () => exchange.request.socket.destroySoon())
}

async function dripBody(exchange: Exchange, answer: Answer, durationMs: number): Promise<void> {
  if (exchange.gone) return
  const { response } = exchange
  exchange.beginSized(answer)
  response.flushHeaders()
  const startedAt = performance.now()
  const bytes = Math.ceil(answer.body.length / DRIPS)
  for (let sent = 0; sent < answer.body.length; sent += bytes) {
    const dueAt = startedAt + (durationMs * Math.min(sent + bytes, answer.body.length)) / answer.body.length
    await exchange.wait(dueAt - performance.now())
    if (exchange.gone) return
    response.write(answer.body.subarray(sent, sent + bytes))
  }
  response.end()
}

async function sendHugeBody(
  exchange: Exchange,
  answer: Answer,
  { bytes = TEN_MEBIBYTES, gzip = false }: FaultOf<'huge-body'>,
): Promise<void> {
  if (exchange.gone) return
  const { response } = exchange
  exchange.begin(200, { 'content-type': 'application/json', ...(gzip && { 'content-encoding': 'gzip' }) })
  const content = Readable.from(padded(answer.status === 200 ? answer.body : Buffer.from('{}'), bytes))
  // A client that has read enough goes, and the pipeline rejects: so it should.
  await (gzip ? pipeline(content, createGzip(), response) : pipeline(content, response)).catch(() => {})
}

/** A JSON object with one more member, which fills it up to a number of bytes. */
function* padded(object: Buffer, bytes: number): Generator<Buffer> {
  const members = object.toString().slice(1, -1)
  const head = Buffer.from(`{${members}${members === '' ? '' : ','}"padding":"`)
  yield head
  for (let left = bytes - head.length - 2; left > 0; left -= PADDING.length) yield PADDING.subarray(0, left)
  yield Buffer.from('"}')
}
