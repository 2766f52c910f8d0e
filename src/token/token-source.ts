/** Where the next token comes from: from another process by way of the store, or from the token endpoint. */
import { tokenEndpoint } from '../environments.ts'
import type { Emit } from '../events.ts'
import type { ResolvedOptions } from '../options.ts'
import { redactWord, type UsedSecrets } from '../redact.ts'
import type { TokenStore } from '../store/token-store.ts'
import { ERROR_CODES } from '../vocabulary.ts'
import { untilAborted } from '../waiting.ts'
import { ClientSecret, warnIfWeak } from './client-secret.ts'
import type { RenewalRation } from './cooldown.ts'
import { type HeldToken, holdFreshToken, holdToken } from './held-token.ts'
import type { SharedEntries } from './shared-entries.ts'
import { SharedTurn } from './shared-turn.ts'
import { attemptEndsAt, requestToken, type SentGrant } from './token-request.ts'

const MOST_REFUSED = 16
const LOOK_AGAIN_MS = 1_000

/** What another token is wanted for. */
export interface Want {
  /** When (monotonic ms) a token request must have ended; the time spent waiting for other processes comes on top. */
  readonly deadline: number
  /** Whether it is wanted before its time: another process's will do where it is not due itself. */
  readonly ahead: boolean
  /** The token that another is wanted for. */
  readonly than?: string | undefined
  /** Said where an API refused that one. */
  readonly refusal?: Refusal | undefined
  /** Whether the token endpoint may be asked now. */
  mayAsk(): boolean
}

/** Who refused a token, and how often that may cost another. */
export interface Refusal {
  readonly api: string | undefined
  readonly ration: RenewalRation
}

/** A token, and where it came from. */
export interface TakenToken {
  readonly held: HeldToken
  readonly source: 'endpoint' | 'store'
}

/** What a source goes by, besides the options. */
export interface TokenSourceContext {
  readonly emit: Emit
  readonly secrets: UsedSecrets
  /** Ends everything that it waits for. */
  readonly closed: AbortSignal
}

type Write = (entries: SharedEntries) => Promise<void>

const WRITTEN = Promise.resolve(undefined)

/** The source of one provider's tokens. */
export class TokenSource {
  readonly #options: ResolvedOptions
  readonly #context: TokenSourceContext
  #shared: { readonly sealedWith: string; readonly entries: SharedEntries } | undefined
  /** Not to be taken from the store again. */
  readonly #refused: string[] = []
  #lookedAt = Number.NEGATIVE_INFINITY
  /** Whether the store still works, when the last turn has written there; undefined once it has. */
  #writing: Promise<boolean | undefined> = WRITTEN
  /** The last turn's writing, and the lease given back. */
  #ending: Promise<void> = Promise.resolve()

  constructor(options: ResolvedOptions, context: TokenSourceContext) {
    this.#options = options
    this.#context = context
    for (const key of options.encryptionKeys ?? []) context.secrets.add(key)
    if (typeof options.clientSecret === 'string') warnIfWeak(options.clientSecret)
  }

  /** Whether it is time to see what other processes have, even where the token endpoint may not be asked. */
  get lookIsDue(): boolean {
    return this.#options.store !== undefined && this.#now() - this.#lookedAt >= LOOK_AGAIN_MS
  }

  /**
   * The token of another process, or a new one, which is then there for the others. Undefined where the others have
   * none and the token endpoint may not be asked, or where another is just asking and nobody is in a hurry.
   *
   * @throws what `requestToken` throws. A store that fails is done without.
   */
  async take(want: Want): Promise<TakenToken | undefined> {
    if (this.#options.store !== undefined) return await this.#takeShared(this.#options.store, want)
    return want.mayAsk() ? await this.#ask(want, this.#clientSecret(), want.deadline) : undefined
  }

  async #takeShared(store: TokenStore, want: Want): Promise<TakenToken | undefined> {
    const { closed } = this.#context
    const { clock, timeoutMs } = this.#options
    const secret = this.#clientSecret()
    const startedAt = this.#now()
    const works = (await untilAborted(this.#writing, closed)) ?? true // what the last turn writes comes first
    const waitedMs = this.#now() - startedAt
    const entries = works
      ? await untilAborted(
          this.#entries(store, { ...want, deadline: want.deadline + waitedMs }, secret),
          closed,
        )
      : undefined
    const turn = new SharedTurn(entries, {
      clock,
      closed,
      leaseMs: Math.ceil(timeoutMs),
      isRefused: (value) => this.#refused.includes(value),
      choose: (found) => this.#choose(found, want),
    })
    const from = this.#now()
    const asking = this.#askOthers(turn, want)
    let write: Write | undefined
    try {
      const shared = await untilAborted(asking, closed)
      if (shared === 'none') return undefined
      if (shared !== undefined) return { held: shared, source: 'store' }
      const othersMs = waitedMs + this.#now() - from
      const taken = await this.#ask(want, secret, want.deadline + othersMs)
      // What a new secret got is not for those who have the old one: it may have been replaced for a reason.
      if (this.#options.encryptionKeys || secret.last === this.#shared?.sealedWith)
        write = (written) => writeAll(written, taken.held, want.refusal)
      return taken
    } finally {
      this.#end(asking, turn, write)
    }
  }

  #end(asking: Promise<unknown>, turn: SharedTurn, write: Write | undefined): void {
    const writing = asking.then(
      () => turn.write(write),
      () => turn.write(),
    )
    this.#writing = writing
    this.#ending = writing.then(() => {
      if (this.#writing === writing) this.#writing = WRITTEN
      return turn.leave()
    })
  }

  /** Resolves when the store has been told everything, or has failed. */
  async settled(): Promise<void> {
    await this.#ending
  }

  /** A token of another process; `none` where there is none and none is to be asked for; else undefined. */
  async #askOthers(
    turn: SharedTurn,
    { ahead, refusal, mayAsk }: Want,
  ): Promise<HeldToken | 'none' | undefined> {
    const found = await turn.look()
    if (found !== undefined) return found
    if (!mayAsk()) return 'none'
    if (refusal !== undefined) {
      await readRation(turn, refusal)
      // Whoever closed it meanwhile had written a newer token before.
      const newer = refusal.ration.waitMs(this.#now()) > 0 ? await turn.look() : undefined
      if (newer !== undefined) return newer
      if (!mayAsk()) return 'none'
    }
    const put = await turn.wait({ hurry: !ahead })
    if (put !== undefined) return put === 'taken' ? 'none' : put
    turn.removeRefused()
    if (refusal !== undefined) await readRation(turn, refusal) // it may have been closed while the turn was waited for
    return mayAsk() ? undefined : 'none'
  }

  /** Notes a token that an API refused: it is not taken from the store again. */
  noteRefused(value: string): void {
    if (!this.#refused.includes(value)) this.#refused.push(value)
    if (this.#refused.length > MOST_REFUSED) this.#refused.shift()
  }

  #choose(found: SentGrant, { ahead, than }: Want): HeldToken | undefined {
    if (found.value === than || this.#refused.includes(found.value)) return undefined
    const held = holdToken(found, this.#options, this.#context.secrets)
    const leastMs = ahead ? held.lifetime.windowMs : 0
    return held.lifetime.servableForMs(this.#options.clock) > leastMs ? held : undefined
  }

  #clientSecret(): ClientSecret {
    return new ClientSecret(this.#options.clientSecret, this.#context.secrets)
  }

  async #ask({ refusal, ahead }: Want, clientSecret: ClientSecret, deadline: number): Promise<TakenToken> {
    const { emit, secrets, closed } = this.#context
    const askedAt = this.#now()
    const held = await requestToken(this.#options, {
      emit,
      deadline,
      ahead,
      closed,
      clientSecret,
      secrets,
      accept: (grant) => holdFreshToken(grant, this.#options, secrets),
    })
    refusal?.ration.renewed(askedAt)
    return { held, source: 'endpoint' }
  }

  /**
   * What this process can read in the store; nothing where no key can be had. A clientSecret function is asked for
   * one only where the token endpoint may be asked, too.
   */
  async #entries(
    store: TokenStore,
    { mayAsk, deadline, ahead }: Want,
    clientSecret: ClientSecret,
  ): Promise<SharedEntries | undefined> {
    const { clock, environment, clientId, encryptionKeys } = this.#options
    this.#lookedAt = this.#now()
    if (clientSecret.mayChange && !encryptionKeys && !mayAsk()) return this.#shared?.entries
    const endsAt = attemptEndsAt(this.#options, { attempt: 1, deadline, ahead })
    const limits = { endsAt, closed: this.#context.closed }
    const secrets = encryptionKeys ?? [(await clientSecret.askAhead(clock, limits)) ?? '']
    const sealedWith = secrets[0]
    if (!sealedWith) return this.#shared?.entries
    if (this.#shared?.sealedWith !== sealedWith) {
      const { SharedEntries } = await import('./shared-entries.ts')
      const { emit, secrets: used } = this.#context
      const client = [tokenEndpoint(environment), clientId, environment.audience]
      const isSecret = (code: string): boolean => redactWord(code, ERROR_CODES, used) !== code
      const entries = new SharedEntries(store, { client, secrets, clock, emit, isSecret })
      this.#shared = { sealedWith, entries }
    }
    return this.#shared.entries
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }
}

/** Makes a ration as strict as those of the others. */
async function readRation(turn: SharedTurn, { api, ration }: Refusal): Promise<void> {
  await turn.attempt((entries) => entries.readRation(api, ration))
}

async function writeAll(
  entries: SharedEntries,
  held: HeldToken,
  refusal: Refusal | undefined,
): Promise<void> {
  await entries.writeToken(held) // first: see where the ration is read
  if (refusal !== undefined) await entries.writeRation(refusal.api, refusal.ration)
}
