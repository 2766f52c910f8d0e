/** One caller: it makes call after call, each another one, and tells what came of it. */
import { Readable } from 'node:stream'
import axios from 'axios'
import type { Clients, Crew } from './crew.ts'
import type { Api, EndedCall, Outcome, Place } from './evidence.ts'
import { CALL_HEADER, type Ledger } from './ledger.ts'
import { pause } from './mischief.ts'
import { type Answer, outcomeOfAnswer, outcomeOfError } from './outcome.ts'
import type { ObservedProvider } from './provider.ts'
import type { Random } from './random.ts'

/** How long the most patient callers wait. */
const LONGEST_MS = 3_000

/** A body as it is given, and as it is on the wire. */
interface Body {
  readonly given: string | Buffer | URLSearchParams | Blob | Readable | ReadableStream | object | undefined
  readonly bytes: Buffer
  readonly type: string | undefined
  readonly repeatable: boolean
}

/** How a call ends before its answer, if it does. */
interface Limits {
  readonly signal: AbortSignal | undefined
  readonly timeoutMs: number | undefined
  readonly limitMs: number
  readonly cancel: (() => void) | undefined
  readonly cancelToken: ReturnType<typeof axios.CancelToken.source>['token'] | undefined
}

export interface CallerPlan {
  readonly name: string
  readonly place: Place
  readonly crew: Crew
  readonly ledger: Ledger
  readonly random: Random
  /** A signal that lives as long as the program, and that is never aborted. */
  readonly shared: AbortSignal
  /** Whether callers may be impatient at the moment, or leave. */
  mayLeave(): boolean
  /** Told of every call, with what the caller got. */
  onEnd(call: EndedCall, story: ObservedProvider, got: unknown): void
}

type Client = 'axios http' | 'axios fetch' | 'fetch'

export class Caller {
  readonly #plan: CallerPlan
  #made = 0

  constructor(plan: CallerPlan) {
    this.#plan = plan
  }

  /** Calls until the signal ends it. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { random, crew } = this.#plan
    while (!signal.aborted) {
      await this.#call(crew.clients)
      await pause(random.between(40, 160), signal)
    }
  }

  async #call(clients: Clients): Promise<void> {
    const { name, place, random, ledger } = this.#plan
    this.#made += 1
    const id = `${name}-${this.#made}`
    const client = random.pick<Client>(['axios http', 'axios fetch', 'fetch'])
    const api = random.pick<Api>(['merchant', 'in-store'])
    const { merchantUrl, inStoreUrl } = ledger.at(place)
    const apiUrl = api === 'merchant' ? merchantUrl : inStoreUrl
    const body = bodyOf(random, id, client)
    const limits = this.#limitsOf(client)
    let left: { id: string; at: number } | undefined
    const leaving =
      limits.cancel &&
      setTimeout(
        () => {
          left = { id: `leave-${id}`, at: Date.now() }
          limits.cancel?.()
        },
        random.between(0, 150),
      )
    ledger.begin(id)
    const startedAt = Date.now()
    let outcome: Outcome
    let got: unknown
    try {
      const answer = await send(clients, client, {
        url: `${apiUrl}/calls/${id}`,
        id,
        body,
        limits,
        asRequest: body.repeatable && random.chance(0.2),
      })
      got = answer.raw
      outcome = outcomeOfAnswer(answer, id, body.bytes)
    } catch (error) {
      got = error
      outcome = outcomeOfError(error, { id, signal: limits.signal, timeoutMs: limits.timeoutMs, left })
    }
    clearTimeout(leaving)
    const { limitMs } = limits
    const { repeatable } = body
    const wholeLimit = limits.timeoutMs === undefined && limits.cancel === undefined
    const endedAt = Date.now()
    this.#plan.onEnd(
      { id, client, api, place, apiUrl, startedAt, endedAt, repeatable, limitMs, wholeLimit, left, outcome },
      clients.observed,
      got,
    )
  }

  #limitsOf(client: Client): Limits {
    const { random, shared } = this.#plan
    const none = { timeoutMs: undefined, cancel: undefined, cancelToken: undefined, limitMs: LONGEST_MS }
    const way = this.#plan.mayLeave()
      ? random.weighted({ patient: 60, shared: 20, impatient: 14, leaving: 6 })
      : random.weighted({ patient: 70, shared: 30 })
    if (way === 'leaving') {
      if (client !== 'fetch' && random.chance(0.5)) {
        const { token, cancel } = axios.CancelToken.source()
        return { ...none, signal: undefined, cancel: () => cancel('not needed any more'), cancelToken: token }
      }
      const leave = new AbortController()
      return { ...none, signal: leave.signal, cancel: () => leave.abort(new Error('not needed any more')) }
    }
    const limitMs = way === 'impatient' ? random.between(600, 1_500) : LONGEST_MS
    const own = AbortSignal.timeout(limitMs)
    if (way === 'shared' && client === 'fetch') {
      return { ...none, limitMs, signal: AbortSignal.any([shared, own]) }
    }
    if (way === 'shared') return { ...none, limitMs, signal: shared, timeoutMs: limitMs }
    if (way === 'impatient' && client !== 'fetch') {
      return { ...none, limitMs, signal: undefined, timeoutMs: limitMs }
    }
    return { ...none, limitMs, signal: own }
  }
}

/** A body of one of the kinds that callers send. One in fifty can be sent only once. */
function bodyOf(random: Random, id: string, client: Client): Body {
  const kind = random.weighted({ none: 20, object: 10, text: 5, buffer: 5, form: 4, blob: 4, stream: 1 })
  const text = `${id} ${'x'.repeat(random.between(0, 2_000))}`
  const bytes = Buffer.from(text)
  const plain = { bytes, type: 'text/plain', repeatable: true }
  switch (kind) {
    case 'none':
      return { given: undefined, bytes: Buffer.alloc(0), type: undefined, repeatable: true }
    case 'object': {
      const given = { id, text }
      return { ...plain, given, bytes: Buffer.from(JSON.stringify(given)), type: 'application/json' }
    }
    case 'text':
      return { ...plain, given: text }
    case 'buffer':
      return { ...plain, given: bytes }
    case 'form': {
      const given = new URLSearchParams({ id, text })
      return { ...plain, given, bytes: Buffer.from(given.toString()), type: undefined }
    }
    case 'blob':
      return { ...plain, given: new Blob([bytes]) }
    case 'stream':
      return {
        ...plain,
        given: client === 'axios http' ? Readable.from([bytes]) : new Blob([bytes]).stream(),
        repeatable: false,
      }
  }
}

interface Sent {
  readonly url: string
  readonly id: string
  readonly body: Body
  readonly limits: Limits
  /** Whether fetch gets a Request. */
  readonly asRequest: boolean
}

async function send(
  clients: Clients,
  client: Client,
  { url, id, body, limits, asRequest }: Sent,
): Promise<Answer & { readonly raw: unknown }> {
  const { given, type } = body
  const { signal, timeoutMs, cancelToken } = limits
  const method = given === undefined ? 'GET' : 'POST'
  const headers = { [CALL_HEADER]: id, ...(type && { 'content-type': type }) }
  if (client !== 'fetch') {
    const instance = client === 'axios http' ? clients.http : clients.viaFetch
    const answer = await instance.request<unknown>({
      url,
      method,
      headers,
      data: given,
      ...(signal && { signal }),
      ...(timeoutMs !== undefined && { timeout: timeoutMs }),
      ...(cancelToken && { cancelToken }),
    })
    return { status: answer.status, data: answer.data, raw: answer }
  }
  const plain =
    given?.constructor === Object ? JSON.stringify(given) : (given as Exclude<typeof given, object>)
  const init: RequestInit = {
    method,
    headers,
    ...(plain !== undefined && { body: plain }),
    ...(!body.repeatable && { duplex: 'half' }),
    ...(signal && { signal }),
  }
  const response = await clients.authFetch(asRequest ? new Request(url, init) : url, init)
  const data: unknown = response.status === 200 ? await response.json() : await response.text()
  return { status: response.status, data, raw: response }
}
