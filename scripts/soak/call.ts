/** One call: which client makes it, with which body, for how long its caller waits, and how it ended. */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import axios, { isAxiosError, isCancel } from 'axios'
import { isMerchantAuthError } from 'merchant-auth'
import type { Answer } from '../../test/clients/drivers.ts'
import type { Random } from '../../test/support/random.ts'
import { CLIENT_NAMES, type ClientName, type Clients } from './clients.ts'
import type { EndedCall, Outcome } from './oracle.ts'
import { CALL_HEADER } from './service.ts'

/** How long the most patient callers wait. */
const LONGEST_MS = 3_000

interface Body {
  readonly given: string | Buffer | URLSearchParams | Blob | Readable | ReadableStream | object | undefined
  /** What must arrive. */
  readonly bytes: Buffer
  readonly type?: string
  readonly repeatable: boolean
}

/** What ends a call before its answer. */
interface Limits {
  readonly limitMs: number
  readonly signal?: AbortSignal
  readonly axiosTimeout?: boolean
  readonly cancelToken?: ReturnType<typeof axios.CancelToken.source>['token']
  /** The caller cancels the call after a moment. */
  readonly cancel?: () => void
}

export interface CallOptions {
  readonly id: string
  readonly random: Random
  /** A signal that lives as long as the program and is never aborted. */
  readonly shared: AbortSignal
  /** Whether this caller may be impatient, or cancel. */
  readonly mayLeave: boolean
}

/** Makes one call. Never rejects. */
export async function makeCall(
  clients: Clients,
  { id, random, shared, mayLeave }: CallOptions,
): Promise<{ readonly call: Omit<EndedCall, 'troubles' | 'stalledMs'>; readonly got: unknown }> {
  const { service } = clients
  const { place, environment, records } = service
  const client = random.pick(CLIENT_NAMES)
  const body = bodyOf(random, id, client)
  const limits = limitsOf(random, client, { shared, mayLeave })
  const url = `${random.chance(0.5) ? environment.merchantUrl : environment.inStoreUrl}/calls/${id}`
  service.mayFail(random)
  records.begin(id)
  const startedAt = Date.now()
  let leftAt: number | undefined
  const leave = (): void => {
    leftAt = Date.now()
    limits.cancel?.()
  }
  const leaving = limits.cancel && setTimeout(leave, random.between(0, 150))
  let outcome: Outcome
  let got: unknown
  try {
    const answer = await send(clients, client, { url, id, body, limits, asRequest: random.chance(0.2) })
    got = answer.own
    outcome = outcomeOfAnswer(answer, id, body.bytes)
  } catch (error) {
    got = error
    outcome = outcomeOfError(error, { limits, left: leftAt !== undefined })
  }
  clearTimeout(leaving)
  const endedAt = Date.now()
  const { limitMs, axiosTimeout, cancel } = limits
  const dueAt = axiosTimeout || cancel ? undefined : startedAt + limitMs
  const { closedAt, suppressedAt } = clients
  const { repeatable } = body
  const ended = { startedAt, endedAt, limitMs, dueAt, leftAt, repeatable, closedAt, suppressedAt }
  return { call: { id, client, place, ...ended, outcome, arrivals: records.end(id, place) }, got }
}

/** A body of one of the kinds that callers send. A few can be sent only once. */
function bodyOf(random: Random, id: string, client: ClientName): Body {
  const text = `${id} ${'x'.repeat(random.between(0, 2_000))}`
  const bytes = Buffer.from(text)
  const json = JSON.stringify({ id, text })
  const form = new URLSearchParams({ id, text })
  const plain = { bytes, type: 'text/plain', repeatable: true }
  if (random.chance(0.4)) return { given: undefined, bytes: Buffer.alloc(0), repeatable: true }
  if (random.chance(0.04)) {
    const web = client === 'axios fetch' || client === 'fetch'
    return { ...plain, given: web ? new Blob([bytes]).stream() : Readable.from([bytes]), repeatable: false }
  }
  const isAxios = client.startsWith('axios')
  return random.pick<Body>([
    {
      given: isAxios ? { id, text } : json,
      bytes: Buffer.from(json),
      type: 'application/json',
      repeatable: true,
    },
    { ...plain, given: text },
    { ...plain, given: bytes },
    { ...plain, given: new Blob([bytes]) },
    client === 'undici'
      ? { ...plain, given: form.toString(), bytes: Buffer.from(form.toString()) }
      : { given: form, bytes: Buffer.from(form.toString()), repeatable: true },
  ])
}

function limitsOf(
  random: Random,
  client: ClientName,
  { shared, mayLeave }: Pick<CallOptions, 'shared' | 'mayLeave'>,
): Limits {
  const isAxios = client.startsWith('axios')
  const way = random.weighted({
    ...{ patient: 60, shared: 20 },
    ...{ impatient: mayLeave ? 14 : 0, leaving: mayLeave ? 6 : 0 },
  })
  if (way === 'leaving' && isAxios && random.chance(0.5)) {
    const { token, cancel } = axios.CancelToken.source()
    return { limitMs: LONGEST_MS, cancelToken: token, cancel: () => cancel('not needed any more') }
  }
  if (way === 'leaving') {
    const left = new AbortController()
    const cancel = (): void => left.abort(new Error('not needed any more'))
    return { limitMs: LONGEST_MS, signal: left.signal, cancel }
  }
  const limitMs = way === 'impatient' ? random.between(600, 1_500) : LONGEST_MS
  if (way === 'shared' && isAxios) return { limitMs, signal: shared, axiosTimeout: true }
  if (way === 'impatient' && isAxios) return { limitMs, axiosTimeout: true }
  const own = AbortSignal.timeout(limitMs)
  return { limitMs, signal: way === 'shared' ? AbortSignal.any([shared, own]) : own }
}

interface Sent {
  readonly url: string
  readonly id: string
  readonly body: Body
  readonly limits: Limits
  /** Whether fetch gets a Request. */
  readonly asRequest: boolean
}

function send(
  clients: Clients,
  client: ClientName,
  { url, id, body, limits, asRequest }: Sent,
): Promise<Answer> {
  const { given, type, repeatable } = body
  const { signal, axiosTimeout, limitMs, cancelToken } = limits
  const headers = { [CALL_HEADER]: id, ...(type && { 'content-type': type }) }
  const method = given === undefined ? 'GET' : 'POST'
  const call = { method, headers, body: given, ...(signal && { signal }) }
  if (client === 'fetch' && asRequest && repeatable) {
    const init = { ...call, body: (given ?? null) as Buffer | null }
    return clients.calls.fetch({ ...call, url: new Request(url, init) })
  }
  const ofAxios = {
    timeout: axiosTimeout ? limitMs : 0,
    validateStatus: axios.defaults.validateStatus,
    ...(client === 'axios http' && { maxContentLength: clients.maxContentLength }),
    ...(cancelToken && { cancelToken }),
  }
  return clients.calls[client]({ ...call, url, options: client.startsWith('axios') ? ofAxios : {} })
}

/** A good answer echoes this very call. */
function outcomeOfAnswer({ status, text }: Answer, id: string, body: Buffer): Outcome {
  if (status !== 200) return { kind: 'status', status }
  const echo = JSON.parse(text) as { headers?: Record<string, string>; bodySha256?: string } | null
  const sha256 = createHash('sha256').update(body).digest('hex')
  const same = echo?.headers?.[CALL_HEADER] === id && echo.bodySha256 === sha256
  return { kind: same ? 'ok' : 'body' }
}

/** What clients say of a connection that broke, or of an answer that cannot be read to its end. */
const BROKEN = new Set([
  'ERR_NETWORK',
  'ERR_BAD_RESPONSE',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'UND_ERR_SOCKET',
])
const BROKEN_WORDS = new Set(['fetch failed', 'terminated', 'other side closed'])

function outcomeOfError(error: unknown, { limits, left }: { limits: Limits; left: boolean }): Outcome {
  const { signal, axiosTimeout, limitMs } = limits
  const { name, code, message } = error as { name?: unknown; code?: unknown; message?: unknown }
  if (isMerchantAuthError(error)) {
    if (error.code === 'ERR_PROVIDER_CLOSED') return { kind: 'closed' }
    if (error.code !== 'ERR_CONFIGURATION') return { kind: 'token', code: error.code }
  } else if (isCancel(error) || (signal?.aborted && (error === signal.reason || name === 'AbortError'))) {
    if (left || signal?.aborted) return { kind: left ? 'left' : 'limit' }
  } else if (axiosTimeout && message === `timeout of ${limitMs}ms exceeded`) return { kind: 'limit' }
  else if (isAxiosError(error) && error.response !== undefined && !/^2/.test(`${error.response.status}`))
    return { kind: 'status', status: error.response.status }
  else if (BROKEN.has(String(code)) || BROKEN_WORDS.has(String(message))) return { kind: 'network' }
  else if (error instanceof SyntaxError) return { kind: 'body' }
  return { kind: 'strange', message: `${String(error)} (code ${String(code)})` }
}
