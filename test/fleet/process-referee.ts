/** Checks one process: when it requests tokens, which ones it gets, and what its callers get. */
import type { AuthEvent } from '../../src/index.ts'
import { isMerchantAuthError } from '../../src/index.ts'
import type { Answer } from '../model/endpoint.ts'
import { LEASE, READ } from '../support/simulated-redis.ts'
import type { Ledger, RateLimit } from './ledger.ts'
import type { Command } from './redis.ts'
import { isTokenKey, type RedisReferee } from './redis-referee.ts'

/** One for the lease of another process, one for its own token request. */
const MOST_TIMEOUTS = 2
const MOST_GRACE_MS = 1_000
const OPERATION_MS = 250
/** Delete, write and release of the previous turn; read, rate limit; then lease and read, twice. */
const MOST_OPERATIONS = 10
const MOST_UNNOTICED_MS = 100

/** One acquisition through the store: read, lease, read, request, write, release. */
interface Turn {
  /** When it first tried to get the lease. */
  waitsSince: number | undefined
  hasHadLease: boolean
  storeFailed: boolean
  /** A read failed. */
  readFailed: boolean
  /** Whether it has ended, so that the next read begins another. */
  over: boolean
}

const NEW_TURN: Turn = {
  waitsSince: undefined,
  hasHadLease: false,
  storeFailed: false,
  readFailed: false,
  over: false,
}

export class ProcessReferee {
  closed = false
  /** The tokens that were handed out, the last one at the end. */
  readonly got: string[] = []
  readonly name: string
  readonly ledger: Ledger
  readonly #redis: RedisReferee
  readonly #rateLimit: RateLimit
  readonly #rejected = new Set<string>()
  /** Tokens that must not be handed out again. */
  #barred = new Set<string>()
  #turn: Turn = { ...NEW_TURN, over: true }
  /** Whether a command failed: a lease that is granted too late is released whenever its answer arrives. */
  #hasLateCommands = false
  /** Whether it waits for the token of another process, and how long (ms) it slept while one was stored. */
  #polls = false
  #unnoticedMs = 0
  #hasHadToken = false
  #inFlight = 0
  #requestedAt = 0
  #beganAt = 0
  #source: 'endpoint' | 'store' = 'store'
  /** Whether the last answer was a fault. */
  #wasFault = false
  /** Whether a token request has failed since its last token. */
  #wasFailed = false

  constructor(name: string, ledger: Ledger, redis: RedisReferee, rateLimit: RateLimit) {
    this.name = name
    this.ledger = ledger
    this.#redis = redis
    this.#rateLimit = rateLimit
  }

  /** The longest time (ms) that a caller may wait. */
  get mostMs(): number {
    return MOST_TIMEOUTS * this.ledger.options.timeoutMs + MOST_OPERATIONS * OPERATION_MS + MOST_GRACE_MS
  }

  sends({ script, keys }: Command): void {
    if (!isTokenKey(keys[0] ?? '')) return
    if (script === READ && this.#turn.over) this.#turn = { ...NEW_TURN }
    if (script === LEASE) {
      this.#turn.waitsSince ??= this.ledger.now
      this.#polls = true
    }
    if (this.#turn.readFailed && (script === READ || script === LEASE))
      this.#problem('alone', 'continues with a store that has failed')
  }

  /** Whether no token request is in flight. */
  get isIdle(): boolean {
    return this.#inFlight === 0
  }

  /** Time passes in which nothing is in flight or due. */
  lives(ms: number): void {
    this.#unnoticedMs = this.#polls && this.#redis.offers(this.name) ? this.#unnoticedMs + ms : 0
    if (this.#unnoticedMs > MOST_UNNOTICED_MS)
      this.#problem('notice', `sees nothing for ${this.#unnoticedMs} ms`)
  }

  /** `close()` has resolved while commands were in flight. */
  leavesBehind(): void {
    if (!this.#hasLateCommands) this.#problem('rest', 'leaves commands behind')
  }

  /** It expects a token to live for `ms`. */
  expects(value: string, ms: number): void {
    const { requestedAt = 0, lifetimeMs = 0 } = this.ledger.issued(value) ?? {}
    const beyondMs = ms - (requestedAt + lifetimeMs - this.ledger.now)
    if (beyondMs > 1) this.#problem('outlive', `takes ${value} to live ${beyondMs} ms longer`) // Redis rounds
  }

  getsLease(): void {
    this.#turn.hasHadLease = true
    this.#polls = false
  }

  requestBegins(): void {
    if (this.closed) this.#problem('closed', 'requests a token after close()')
    this.#inFlight += 1
    this.#requestedAt = this.ledger.now
    this.#wasFault = false
    if (this.#inFlight > 1) this.#problem('inFlight', `has ${this.#inFlight}`)
  }

  requestEnds(answer: Answer | undefined): void {
    if (this.#inFlight > 0) this.#inFlight -= 1
    this.#wasFault = answer !== undefined && answer.kind !== 'token'
  }

  rejects(value: string): void {
    this.#rejected.add(value)
    this.ledger.reject(this.name, value)
    this.ledger.note(`${this.name} sees ${value} rejected`)
  }

  gets(value: string): void {
    if (this.got.at(-1) !== value) this.got.push(value)
    this.ledger.note(`${this.name} hands out ${value}`)
    const issued = this.ledger.issued(value)
    if (issued === undefined) {
      this.#problem('margin', `got ${value}, which was never issued`)
      return
    }
    if (this.closed) this.#problem('closed', `hands out ${value}`)
    const lateMs = -this.ledger.remainsMs(issued)
    if (lateMs > 1) this.#problem('margin', `got ${value} ${lateMs} ms after its end`) // Redis rounds
    if (this.#barred.has(value)) this.#problem('rejected', `got ${value}`)
  }

  waitsTooLong(name: string, ms: number): void {
    this.#problem('wait', `${name} takes ${ms} ms`)
  }

  /** A caller no longer waits, however that ended. */
  ends(): void {
    this.#turn.readFailed = false
    this.#polls = false
    this.#unnoticedMs = 0
  }

  fails(name: string, error: unknown): void {
    this.ledger.note(`${this.name}: ${name} fails with ${(error as Error).message}`)
    if (!isMerchantAuthError(error)) this.#problem('errors', `${name} rejects with ${error}`)
    else if (!this.closed && !this.#wasFailed) this.#problem('failure', `${name} fails with ${error.code}`)
  }

  /** An event of the provider, while callers wait or not. */
  hears(event: AuthEvent, isAwaited: boolean): void {
    if (event.type === 'store-failed') {
      this.ledger.note(`${this.name}: store-failed ${event.operation} ${event.code}`)
      this.#turn.storeFailed = true
      this.#hasLateCommands = true
      if (event.operation === 'get' && isAwaited && !this.#turn.over) {
        // A renewal in the background waits for the store, and the next turn, for a caller, tries the store again.
        if (this.#mayRenewInBackground) this.#turn.over = true
        else this.#turn.readFailed = true
      }
      this.#rateLimit.disturbed = true
    } else if (event.type === 'token-requested') {
      if (event.attempt === 1) this.#begins()
    } else if (event.type === 'token-acquired') this.#acquires(event.source)
    else if (event.type === 'token-renewed') {
      if (event.reason === 'rejected' && this.#source === 'endpoint')
        this.#rateLimit.renewed(this.name, this.#beganAt)
    } else if (event.type === 'renewal-suppressed') this.#turn.over = true
    else if (event.type === 'token-request-failed') this.#requestFails(event.code)
  }

  get #mayRenewInBackground(): boolean {
    const current = this.ledger.issued(this.got.at(-1) ?? '')
    return (
      this.ledger.options.refreshAheadMs !== 0 && current !== undefined && this.ledger.remainsMs(current) > 0
    )
  }

  #begins(): void {
    const { waitsSince, hasHadLease, storeFailed } = this.#turn
    const { now, options } = this.ledger
    this.#beganAt = now
    this.#polls = false
    this.#turn.over = true
    const hasWaited = waitsSince !== undefined && now - waitsSince >= options.timeoutMs
    if (!hasHadLease && !storeFailed && !hasWaited) this.#problem('turn', 'makes a token request')
    if (!hasHadLease) this.#rateLimit.disturbed = true
    const usable = storeFailed ? undefined : this.#redis.usable(this.name, now, !this.#hasHadToken)
    if (usable !== undefined) this.#problem('need', `makes a token request, though ${usable.value} is there`)
  }

  #acquires(source: 'endpoint' | 'store'): void {
    this.ledger.note(`${this.name} has a token from the ${source}`)
    this.#source = source
    this.#polls = false
    this.#turn.over = true
    this.#hasHadToken = true
    this.#wasFailed = false
    this.#barred = new Set(this.#rejected)
  }

  /** An attempt failed, which is allowed after a fault, or when it had a large part of its time. */
  #requestFails(code: string): void {
    const { now, options } = this.ledger
    const slow = now - this.#requestedAt >= options.timeoutMs / 4
    this.ledger.note(`${this.name}: token request failed, ${code}`)
    if (this.#wasFault || slow || this.#wasFailed || this.closed) this.#wasFailed = true
    else this.#problem('failure', `gives up a token request with ${code} after ${now - this.#requestedAt} ms`)
  }

  #problem(rule: Parameters<Ledger['problem']>[0], what: string): void {
    this.ledger.problem(rule, `${this.name} ${what}`)
  }
}
