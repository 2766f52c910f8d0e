/** One process: a provider, its token endpoint, and its callers, with what each of them waits for. */
import {
  type AuthEvent,
  createTokenProvider,
  isMerchantAuthError,
  type TokenProvider,
  type TokenProviderOptions,
} from '../../src/index.ts'
import { APIS, type Apis, ELSEWHERE } from './apis.ts'
import { type Answer, type Client, type ClientName, createClients, isAbort, type Sent } from './clients.ts'
import { type PendingRequest, TokenEndpoint } from './endpoint.ts'
import { sentNow } from './grant.ts'
import { currentRequest, type IncomingClock, IncomingRequest } from './incoming.ts'
import { type Ledger, MOST_SENDS, Referee, type RefereeOptions, type SeenNeed } from './referee.ts'

/** Longer than any pause or limit, but for the doubt about a 401. */
const LIMITS_MS = 3_601_000
/** So many calls, one a minute, may get a 401 in doubt; then the one that finds another process' token, and as many with that. */
const MOST_REJECTED = 2
const MINUTE_MS = 60_000
const CLOSE = 'close()'

/** A caller, and what it waits for. */
export interface Call {
  readonly name: string
  readonly client: ClientName | undefined
  readonly controller: AbortController | undefined
  readonly signal: AbortSignal | undefined
  /** The request of a server that it belongs to. */
  readonly request: IncomingRequest
  readonly fault: Fault | undefined
  readonly isForced: boolean
  readonly isStream: boolean
  readonly failuresBefore: number
  readonly isServed: boolean
  /** Since when (monotonic ms) it has been waiting for a token. */
  since: number
  /** The values of the tokens that it was sent with, and the moment of the first send. */
  readonly tokens: string[]
  sentAt: number
  /** Whether an API has rejected it, and whether that API may have been in doubt when it did so last. */
  isRejected: boolean
  wasInDoubt: boolean
  /** Whether an API is handling it, so that close() does not affect it. */
  isSending: boolean
  isSettled: boolean
  /** Whether it ended with an error or with a 401. */
  hasFailed: boolean
  status: number | undefined
}

interface SentCall extends Pick<Sent, 'authorization' | 'signal'> {
  readonly call: Call
}

/** An API returns 401 whatever the token: because of the call, or at another origin, to which the call was redirected. */
type Fault = 'bad' | 'redirected'

interface CallOptions {
  readonly client?: ClientName | undefined
  readonly isAbortable?: boolean
  readonly fault?: Fault | undefined
  readonly isForced?: boolean
  readonly isStream?: boolean | undefined
}

interface TrackedOptions extends CallOptions {
  readonly name: string
  /** Whether a token is cached, so that it must not wait. */
  readonly isServed?: boolean
}

export interface ProcessOptions {
  readonly clock: IncomingClock
  readonly ledger: Ledger
  readonly apis: Apis
  readonly provider: RefereeOptions & Pick<TokenProviderOptions, 'retries' | 'store'>
  /** Whether the `fetch` of token requests ignores that they are aborted. */
  readonly isDeaf: boolean
  /** Whether calls may be dropped, with all they started. */
  readonly isDroppable: boolean
  /** Whether every call without a fault of its own succeeds, unless a token request fails. */
  readonly allSucceed?: boolean | undefined
  readonly onTokenRequest?: (request: PendingRequest) => void
  /** Resolves when an API answers the call. */
  readonly answered: (call: Call) => Promise<void>
}

export class Process {
  readonly all: Call[] = []
  readonly provider: TokenProvider
  readonly referee: Referee
  readonly endpoint: TokenEndpoint
  readonly #options: ProcessOptions
  readonly #clients: Readonly<Record<ClientName, Client>>
  readonly #errors = new Set<unknown>()
  #allSucceed: boolean

  constructor(options: ProcessOptions) {
    const { clock, ledger, provider, isDeaf, onTokenRequest } = options
    this.#options = options
    this.#allSucceed = options.allSucceed ?? false
    this.referee = new Referee(ledger, provider)
    this.endpoint = new TokenEndpoint({
      clock,
      referee: this.referee,
      requestBegins: () => this.referee.requestBegins(this.#need),
      isDeaf,
      ...(onTokenRequest && { onRequest: onTokenRequest }),
    })
    this.provider = createTokenProvider({
      environment: {
        authUrl: 'https://auth.test.example',
        audience: 'https://api.test.example',
        apiUrls: APIS,
      },
      clientId: 'client-1',
      clientSecret: 'made-up-secret',
      fetch: this.endpoint.fetch,
      onEvent: (event) => this.#hears(event),
      clock,
      ...provider,
    })
    this.#clients = createClients(this.provider, (sent) => this.#send(sent))
  }

  /** The calls that have not ended, and may still do so. */
  get waiting(): Call[] {
    return this.all.filter(({ isSettled, request }) => !isSettled && !request.ended)
  }

  /** What calls wait for a token. The acquisition for one that was aborted goes on. */
  get #need(): SeenNeed {
    const { endedAt } = this.referee
    const isWaiting = ({ isSending, isSettled, controller, since, request }: Call): boolean =>
      !request.ended &&
      !isSending &&
      (!isSettled || (controller?.signal.aborted === true && since >= endedAt))
    const waiting = this.all.filter(isWaiting)
    return {
      since: Math.min(...waiting.map(({ since }) => since)),
      isForced: waiting.some(({ isForced }) => isForced),
      isRejected: waiting.some(({ isRejected }) => isRejected),
    }
  }

  getToken({ isAbortable = false, isForced = false }: CallOptions = {}): Call {
    const isServed = !isForced && this.referee.hasToken
    const from = sentNow(this.#options.clock)
    return this.#track({ name: 'getToken', isAbortable, isForced, isServed }, async ({ signal }) => {
      const token = await this.provider.getToken({ signal, forceRefresh: isForced })
      this.referee.handedOut(token.value, 'getToken')
      if (isForced) this.referee.checkForced(token.value, from)
    })
  }

  currentToken(): void {
    const { hasToken } = this.referee
    const token = this.provider.currentToken()
    if (token !== undefined) this.referee.handedOut(token.value, 'currentToken')
    else if (hasToken) this.referee.problem('noWait', 'currentToken() gives nothing')
  }

  /** As a caller that sees 401s itself. */
  renewToken(value: string, api: string | undefined): Call {
    return this.#track({ name: 'renewToken' }, async (call) => {
      call.isRejected = true
      if (!this.referee.closed) this.referee.rejects(String(api))
      const token = await this.provider.renewToken(value, { signal: call.signal, ...(api && { url: api }) })
      if (token !== undefined) this.referee.handedOut(token.value, 'renewToken')
      if (token?.value === value) this.referee.problem('hidden', 'renewToken gives the rejected token')
    })
  }

  /** Calls an API, or another origin. */
  call(base: string, { client = 'fetch', isStream = false, ...options }: CallOptions = {}): Call {
    const isServed = this.referee.hasToken
    const name = `${isStream ? 'stream' : 'call'} by ${client}`
    return this.#track({ name, client, isServed, isStream, ...options }, async (call) => {
      const url = `${base}/orders/${this.all.indexOf(call)}`
      call.status = await this.#clients[client](url, { signal: call.signal, isStream })
    })
  }

  close(): Call {
    this.referee.close()
    return this.#track({ name: CLOSE }, () => this.provider.close())
  }

  /**
   * Whether a call may be dropped. Calls that continue in one turn, after an acquisition that was lost or failed, share a timer
   * here, which another one of them started. On Cloudflare Workers, each continues in a turn of its request.
   */
  mayDrop(call: Call): boolean {
    return this.waiting.every((other) => other === call || other.isSending || !other.request.isIdle)
  }

  /** The server's request ends: its call is no longer waited for, and all it started is dropped. */
  drop(call: Call): void {
    call.request.end()
    call.controller?.abort()
    this.referee.lost()
  }

  /** Finds calls that break a promise now. `isOver`: nothing more happens by itself. */
  check({ isOver }: { isOver: boolean }): void {
    const { referee } = this
    for (const { name, controller, isSending, isServed, tokens } of this.waiting) {
      if (isOver) referee.problem('answered', `${name} never settles`)
      if (controller?.signal.aborted) referee.problem('aborted', `${name} goes on`)
      if (referee.closed && !isSending && name !== CLOSE) referee.problem('closed', `${name} waits`)
      if (isServed && tokens.length === 0) referee.problem('noWait', `${name} waits`)
    }
  }

  /** Finds calls that wait too long for a token, if timers are never late. Call before time passes until `until`. */
  checkPatience(until: number): void {
    for (const { name, isSending, since } of this.waiting) {
      const limit = this.referee.patienceOf(since)
      if (!isSending && name !== CLOSE && until > limit)
        this.referee.problem('answered', `${name} has waited since ${since} ms, not until ${limit} ms`)
    }
  }

  /**
   * Everything works: once limits had time to pass, calls succeed. Then the process ends. `pass`: lets time pass, and everything
   * happen that is due.
   */
  async recover(pass: (ms: number) => Promise<void>): Promise<void> {
    const { provider, referee } = this
    this.#allSucceed = false
    if (!referee.closed) {
      await pass(LIMITS_MS)
      this.getToken()
      await pass(0)
      if (provider.currentToken() === undefined) referee.problem('recovery', 'there is no token')
      for (const api of APIS) await this.#recoverCalls(api, pass)
      this.close()
    }
    await pass(0)
  }

  /** Tokens are revoked, and renewed by the 401s of an API. While the API is in doubt, calls may get the 401. */
  async #recoverCalls(api: string, pass: (ms: number) => Promise<void>): Promise<void> {
    const { apis, ledger } = this.#options
    const most = ledger.hasStore ? 2 * MOST_REJECTED + 1 : MOST_REJECTED
    apis.revoke()
    for (let rejected = 0; rejected <= most; rejected += 1) {
      const call = this.call(api)
      await pass(0)
      if (!call.hasFailed) return
      await pass(MINUTE_MS)
    }
    this.referee.problem('recovery', `${api} rejects calls`)
  }

  #track(
    {
      name,
      client,
      fault,
      isAbortable = false,
      isForced = false,
      isServed = false,
      isStream = false,
    }: TrackedOptions,
    run: (call: Call) => Promise<void>,
  ): Call {
    const { clock, isDroppable } = this.#options
    const controller = isAbortable ? new AbortController() : undefined
    const request = new IncomingRequest()
    const call: Call = {
      name,
      client,
      controller,
      signal: controller?.signal ?? (isDroppable ? request.signal : undefined),
      request,
      fault,
      isForced,
      isStream,
      failuresBefore: this.referee.failuresBefore,
      isServed,
      since: clock.monotonicMs(),
      tokens: [],
      sentAt: 0,
      isRejected: false,
      wasInDoubt: false,
      isSending: false,
      isSettled: false,
      hasFailed: false,
      status: undefined,
    }
    this.all.push(call)
    const running = isDroppable ? call.request.run(() => run(call)) : run(call)
    const ended = (error?: unknown): void => this.#ended(call, error)
    running.then(() => ended(), ended)
    return call
  }

  #hears(event: AuthEvent): void {
    const { referee } = this
    referee.hears(event)
    if (event.type !== 'renewal-suppressed' || event.reason !== 'accepted') return
    const call = this.all[Number(event.url?.split('/').at(-1))]
    if (call !== undefined && !call.tokens.some((token) => referee.hasAccepted(String(event.api), token)))
      referee.problem('reasons', `the event for ${event.url}`)
  }

  #ended(call: Call, error: unknown): void {
    const { name, client, controller, request, fault, isStream, failuresBefore } = call
    const { referee } = this
    call.isSettled = true
    call.hasFailed = error !== undefined || call.status === 401
    if (request.ended) return
    if (controller?.signal.aborted) {
      if (!isAbort(client, error, controller.signal.reason))
        referee.problem('aborted', `${name} ends with ${error}`)
      return
    }
    if (error !== undefined) {
      if (!isMerchantAuthError(error)) referee.problem('errors', `${name} rejects with ${error}`)
      if (this.#errors.has(error)) referee.problem('errors', `${name} gets another's error`)
      if (!referee.mayFail(failuresBefore)) referee.problem('cause', `${name} rejects with ${error}`)
      this.#errors.add(error)
    }
    if (!call.hasFailed || isStream || fault === 'redirected' || referee.mayFail(failuresBefore)) return
    const hasAllSends = call.tokens.length === MOST_SENDS
    if (this.#allSucceed && fault === undefined && !hasAllSends) referee.problem('hidden', `${name} fails`)
    if (call.status === 401 && !call.wasInDoubt) referee.checkLost(call)
  }

  /** The network: an API, or another origin, gets a call. */
  async #send({ url, authorization, signal }: Sent): Promise<Answer> {
    const call = this.all[Number(url.split('/').at(-1))] as Call
    const api = APIS.find((one) => url.startsWith(one))
    if (api !== undefined) return await this.#answerOf(api, { call, authorization, signal })
    if (authorization !== undefined) this.referee.problem('abroad', `a ${call.name} to ${url}`)
    return { status: 200 }
  }

  #answerOf(api: string, { call, authorization, signal }: SentCall): Promise<Answer> {
    const { apis, answered, clock } = this.#options
    const { referee } = this
    const value = authorization?.replace('Bearer ', '') ?? ''
    referee.handedOut(value, `a ${call.name}`)
    if (call.tokens.length === 0) call.sentAt = clock.nextMoment()
    referee.checkSend(call, value)
    call.tokens.push(value)
    call.isSending = true
    return new Promise((resolve, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason))
      answered(call).then(() => {
        if (signal?.aborted || currentRequest()?.ended) return
        call.isSending = false
        call.since = clock.monotonicMs()
        const isAccepted = call.fault === undefined && apis.accepts(value, api)
        call.isRejected = !isAccepted
        call.wasInDoubt = referee.isInDoubt(api)
        if (isAccepted) referee.accepts(api, call.tokens)
        else referee.rejects(api, call)
        const redirectedTo =
          call.fault === 'redirected' ? `${ELSEWHERE}/${this.all.indexOf(call)}` : undefined
        resolve({ status: isAccepted ? 200 : 401, redirectedTo })
      })
    })
  }
}
