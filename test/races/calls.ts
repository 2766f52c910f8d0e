/** The callers of one provider: what each waits for, and the rules for what it gets. */
import { isMerchantAuthError, type TokenProvider } from '../../src/index.ts'
import type { ScheduledClock } from '../support/clock.ts'
import { currentRequest, IncomingRequest } from './incoming.ts'
import type { Referee } from './referee.ts'

export const APIS = ['https://api.test.example/merchant', 'https://api.test.example/in-store'] as const

/** A call whose outcome a caller waits for. */
export interface Call {
  readonly name: string
  readonly controller: AbortController | undefined
  /** The request of a server that it belongs to. */
  readonly request: IncomingRequest
  /** Since when (monotonic ms) it has been waiting for a token. */
  since: number
  sends: number
  /** The first token that was rejected. */
  rejected: string | undefined
  /** Whether an API is handling it, so that close() does not affect it. */
  sending: boolean
  /** Whether a newer token was there when an API rejected it. */
  replaced: boolean
  /** Whether its first token had ended when it was rejected, or a renewal was under way, which it joins. */
  renews: boolean
  /** The other tokens of the provider that its API accepted when it rejected the call last. */
  accepted: readonly string[]
  /** Whether its 401 is its own: the API rejects it with every token. */
  readonly isBad: boolean
  settled: boolean
  /** The least number of token requests when everything has settled. */
  requestsDue: number
  /** How many excuses there were when its wait began; undefined if it needs none to fail. */
  excuses: number | undefined
}

interface CallsContext {
  readonly referee: Referee
  readonly clock: ScheduledClock
  readonly provider: TokenProvider
  /** Resolves when an API answers the call. */
  readonly answered: (call: Call) => Promise<void>
  /** Whether calls may be dropped, with all they started. */
  readonly isDroppable: boolean
  /** Makes a call to an API with the provider's token, through the `fetch` given here. */
  readonly attach: (api: typeof fetch) => typeof fetch
}

interface Tracked {
  readonly name: string
  readonly controller?: AbortController | undefined
  readonly isBad?: boolean
}

export class Calls {
  readonly all: Call[] = []
  readonly #context: CallsContext
  readonly #authFetch: typeof fetch
  readonly #revoked = new Set<string>()
  readonly #rejecting = new Set<string>()
  /** The tokens that the APIs know; undefined: all. */
  #known: Set<string> | undefined
  /** Whether APIs have rejected tokens that they had accepted. */
  #hasRevoked = false
  readonly #failures = new Set<unknown>()

  constructor(context: CallsContext) {
    this.#context = context
    this.#authFetch = context.attach((input, init) => this.#api(String(input), init))
  }

  /** The calls that have not ended, and may still do so. */
  get waiting(): Call[] {
    return this.all.filter(({ settled, request }) => !settled && !request.ended)
  }

  /** Whether an API would accept the newest token. */
  get isRevoked(): boolean {
    return this.#revoked.has(this.#context.referee.issued.at(-1) ?? '')
  }

  /** All tokens issued so far are rejected from now on. */
  revoke(): void {
    this.#hasRevoked = true
    for (const value of this.#context.referee.issued) this.#revoked.add(value)
  }

  /** From now on an API rejects every token, or none because of this. */
  rejectAll(api: string, rejects: boolean): void {
    this.#hasRevoked ||= rejects
    if (rejects) this.#rejecting.add(api)
    else this.#rejecting.delete(api)
  }

  /** From now on the APIs learn of no new token, or know all. */
  lag(lags: boolean): void {
    this.#known = lags ? new Set(this.#context.referee.issued) : undefined
  }

  get isLagging(): boolean {
    return this.#known !== undefined
  }

  heal(): void {
    this.#rejecting.clear()
    this.#known = undefined
  }

  getToken(name: string, { abortable }: { abortable: boolean }): Call {
    const { provider, referee } = this.#context
    const controller = abortable ? new AbortController() : undefined
    const certain = referee.certainlyServable() || referee.certainlyCooling()
    return this.#track({ name: `${name}${certain ? ', at once' : ''}`, controller }, async (call) => {
      call.requestsDue = referee.mustAsk() ? referee.requests + 1 : 0
      this.#expectEffort(call, !referee.mayFail())
      const token = await provider.getToken({ signal: controller?.signal })
      referee.handedOut(token.value, name)
    })
  }

  currentToken(): void {
    const { provider, referee } = this.#context
    const certain = referee.certainlyServable()
    const token = provider.currentToken()
    if (token !== undefined) referee.handedOut(token.value, 'currentToken')
    else if (certain) referee.problem('atOnce', 'currentToken() gives nothing')
  }

  renewToken(value: string, api: string | undefined): Call {
    const { provider, referee } = this.#context
    return this.#track({ name: 'renewToken' }, async (call) => {
      referee.rejects(value, String(api), { isByHand: true })
      this.#expectEffort(call, referee.mustRenew(value, String(api)))
      const token = await provider.renewToken(value, { ...(api && { url: api }) })
      if (token === undefined && referee.closed) referee.problem('closed', 'renewToken resolves')
      if (token === undefined) return this.#failedFor(call)
      referee.handedOut(token.value, 'renewToken')
      if (token.value === value) referee.problem('need', 'renewToken gave the rejected token')
    })
  }

  /** Calls an API, which may reject the token. `isBad`: it rejects the call. */
  call(api: string, { abortable, isBad = false }: { abortable: boolean; isBad?: boolean }): Call {
    const { referee } = this.#context
    const controller = abortable ? new AbortController() : undefined
    const served = referee.certainlyServable()
    const made = this.#track({ name: 'call', controller, isBad }, async (call) => {
      call.requestsDue = referee.mustAsk() ? referee.requests + 1 : 0
      this.#expectEffort(call, !referee.mayFail())
      const id = this.all.indexOf(call)
      const init = { method: 'POST', body: 'x', signal: controller?.signal ?? null }
      const { status } = await this.#authFetch(`${api}/orders/${id}`, init)
      if (status === 401 && call.sends === 1) this.#failedFor(call)
      if (status === 401) this.#checkTokenBefore(call)
    })
    if (served && made.sends === 0)
      referee.problem('atOnce', 'a call was made to wait while a token was there')
    return made
  }

  close(): Call {
    const { provider, referee } = this.#context
    referee.close()
    return this.#track({ name: 'close()' }, () => provider.close())
  }

  /** The server's request ends: its call is no longer waited for, and all it started is dropped. */
  drop(call: Call): void {
    call.request.end()
    this.#context.referee.lost(call.request)
  }

  /** Finds calls that break a rule now. `over`: nothing more happens by itself. */
  check({ over }: { over: boolean }): void {
    const { referee } = this.#context
    for (const call of this.all) {
      const { name } = call
      if (referee.requests < call.requestsDue && !call.request.ended)
        referee.problem('recovery', `${name} led to no token request`)
      if (call.settled || call.request.ended) continue
      if (over) referee.problem('settles', `${name} never settles`)
      if (call.controller?.signal.aborted) referee.problem('signals', `${name} waits on after its abort`)
      if (referee.closed && !call.sending && name !== 'close()')
        referee.problem('closed', `${name} waits on after close()`)
      if (name.endsWith('at once')) referee.problem('atOnce', `${name} was made to wait`)
      if (call.replaced && call.sends === 1)
        referee.problem('atOnce', `${name} waits although a newer token is there`)
    }
  }

  /** Finds calls that wait too long for a token, when timers are never late. Call before any time passes that ends at `until`. */
  checkPatience(until: number): void {
    const { referee } = this.#context
    for (const { name, sending, since } of this.waiting) {
      if (sending || name === 'close()') continue
      const limit = referee.patienceOf(since)
      if (until > limit + 1)
        referee.problem('patience', `${name} has waited since ${since} ms, not until ${limit} ms`)
    }
  }

  #track({ name, controller, isBad = false }: Tracked, run: (call: Call) => Promise<void>): Call {
    const { clock, referee } = this.#context
    const call: Call = {
      name,
      controller,
      request: new IncomingRequest(),
      since: clock.monotonicMs(),
      sends: 0,
      rejected: undefined,
      sending: false,
      replaced: false,
      renews: false,
      accepted: [],
      isBad,
      settled: false,
      requestsDue: 0,
      excuses: undefined,
    }
    this.all.push(call)
    const ends = (error?: unknown): void => {
      call.settled = true
      if (controller?.signal.aborted) {
        if (error !== controller.signal.reason) referee.problem('signals', `${name} did not end by its abort`)
      } else if (error !== undefined) this.#rejected(call, error)
    }
    const running = this.#context.isDroppable ? call.request.run(() => run(call)) : run(call)
    running.then(() => ends(), ends)
    return call
  }

  #rejected(call: Call, error: unknown): void {
    const { referee } = this.#context
    if (call.request.ended) return
    if (!isMerchantAuthError(error)) referee.problem('errors', `${call.name} rejects with ${error}`)
    if (this.#failures.has(error)) referee.problem('errors', `${call.name} got another's error`)
    this.#failures.add(error)
    this.#failedFor(call)
  }

  /** From now on the call may fail only if an acquisition fails in spite of all its attempts. */
  #expectEffort(call: Call, isExpected: boolean): void {
    call.since = this.#context.clock.monotonicMs()
    call.excuses = isExpected ? this.#context.referee.excuses : undefined
  }

  /** A call ends without a token, or with the rejection of the one it had. */
  #failedFor({ name, excuses = Number.NEGATIVE_INFINITY, request, controller }: Call): void {
    const { referee } = this.#context
    if (referee.closed || referee.isMixedUp || request.ended || controller?.signal.aborted) return
    if (referee.excuses === excuses) referee.problem('effort', `${name} failed while attempts were left`)
  }

  /** A call ends with a 401, although the provider had a token that the API accepted. */
  #checkTokenBefore({ accepted, isBad, renews, replaced, request }: Call): void {
    if (replaced || renews) return // it was repeated with the token that replaces its own
    const { referee } = this.#context
    if (isBad || this.#hasRevoked || request.ended || referee.closed || accepted.length === 0) return
    referee.problem('before', `${accepted.join()} works`)
  }

  #rejects(value: string, api: string): boolean {
    return this.#revoked.has(value) || this.#rejecting.has(api) || this.#known?.has(value) === false
  }

  #api(url: string, init: RequestInit = {}): Promise<Response> {
    const { answered, referee } = this.#context
    const call = this.all[Number(url.split('/').at(-1))]
    const api = APIS.find((one) => url.startsWith(one)) ?? ''
    const value = new Headers(init.headers).get('authorization')?.slice('Bearer '.length) ?? ''
    if (call === undefined) throw new Error('no such call')
    call.sends += 1
    referee.handedOut(value, 'an API', { isRepeated: call.sends > 1 })
    call.sending = true
    if (call.sends > 2) referee.problem('twice', 'a call was made a third time')
    return new Promise((resolve, reject) => {
      init.signal?.addEventListener('abort', () => reject(init.signal?.reason))
      answered(call).then(() => {
        if (init.signal?.aborted || currentRequest()?.ended) return
        call.sending = false
        const isRepeated = call.sends > 1
        const rejects = call.isBad || this.#rejects(value, api)
        call.accepted = referee.usable.filter(
          (token) => token !== call.rejected && !this.#rejects(token, api),
        )
        const rejected = isRepeated ? call.rejected : undefined
        if (!rejects) referee.accepts(value, api, rejected)
        else if (isRepeated) referee.rejects(value, api, { rejected })
        else this.#isRejected(call, value, api)
        resolve(rejects ? UNAUTHORIZED : OK)
      })
    })
  }

  #isRejected(call: Call, value: string, api: string): void {
    const { referee } = this.#context
    referee.rejects(value, api)
    call.rejected = value
    call.replaced = referee.isReplaced(value)
    call.renews = !referee.maybeServable() || referee.isRequesting
    this.#expectEffort(call, referee.mustRenew(value, api))
  }
}

/** As much of a Response as the clients read: a real one takes longer to make than a schedule. */
const response = (status: number): Response =>
  ({ status, ok: status < 300, headers: new Headers(), redirected: false, body: null }) as Response
const OK = response(200)
const UNAUTHORIZED = response(401)
