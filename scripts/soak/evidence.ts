/** What may explain a failed call: the shape of a call that ended, of mischief, and of the story of its provider. */
import type { Fault, SandboxRequest } from 'merchant-auth/testing'

export type Place = 'production' | 'test'
export type Api = 'merchant' | 'in-store'

/** What came of a call. Only `ok` is a success. */
export type Outcome =
  | { readonly kind: 'ok' }
  | { readonly kind: 'status'; readonly status: number }
  /** Status 200, and a body that does not tell of this call. */
  | { readonly kind: 'body' }
  | { readonly kind: 'network' }
  /** The caller's own time-out or signal. */
  | { readonly kind: 'limit' }
  /** The caller went of its own accord. */
  | { readonly kind: 'left' }
  | { readonly kind: 'closed' }
  | {
      readonly kind: 'token'
      readonly code: string
      readonly status?: number | undefined
      readonly attempts?: number | undefined
      readonly retryAfterMs?: number | undefined
    }
  /** What no client should ever give. */
  | { readonly kind: 'strange'; readonly told: string }

/** A call that has ended. All instants are in ms since the epoch. */
export interface EndedCall {
  readonly id: string
  readonly client: string
  readonly api: Api
  readonly place: Place
  /** The base URL of the API that was called, as events name it. */
  readonly apiUrl: string
  readonly startedAt: number
  readonly endedAt: number
  /** Whether the same bytes could be sent again. */
  readonly repeatable: boolean
  /** How long the caller was ready to wait. */
  readonly limitMs: number
  /** Whether that is for the call as a whole, as a signal's is, and not for each send, as axios' time-out. */
  readonly wholeLimit: boolean
  /** When the caller went, and the id of that. */
  readonly left?: { readonly id: string; readonly at: number } | undefined
  readonly outcome: Outcome
}

/** Something that was done to the service, to a client secret or to a provider; or the machine standing still. */
export interface Trouble {
  readonly id: string
  readonly kind: 'revocation' | 'refusal' | 'latency' | 'rotation' | 'vault' | 'close' | 'stall'
  /** Where; undefined: everywhere. */
  readonly place?: Place | undefined
  readonly from: number
  /** Infinity while it goes on. */
  to: number
  /** The APIs that refuse every token. */
  readonly apis?: readonly Api[]
  /** The token that was revoked, by its jti; undefined for a revocation of all. */
  readonly jti?: string
  /** How long the machine stood still. */
  readonly ms?: number
  readonly tokenLatencyMs?: number
  readonly apiLatencyMs?: number
}

/** One request of a provider to the token endpoint. */
export interface TokenTry {
  readonly id: string
  readonly startedAt: number
  endedAt: number
  /** What the sandbox noted of it, once it arrived. */
  record?: SandboxRequest
}

/** A failure of a token request (its last attempt), as the event told it. */
export interface TokenFailure {
  readonly at: number
  readonly code: string
  readonly status: number | undefined
  readonly attempts: number
  /** The attempt that failed; undefined where there was no client secret to make one with. */
  readonly tried: TokenTry | undefined
  /** How long the endpoint may be left alone after it by the contract, Retry-After not counted. */
  readonly cooldownMs: number
}

/** The story of one provider, as its fetch and its events tell it. */
export interface Story {
  readonly id: string
  readonly place: Place
  readonly tries: readonly TokenTry[]
  readonly failures: readonly TokenFailure[]
  readonly acquiredAt: readonly number[]
  readonly suppressed: readonly { readonly at: number; readonly api: string | undefined }[]
  /** The tokens that it got, by jti. */
  readonly tokens: ReadonlyMap<string, { readonly issuedAt: number; readonly expiresAt: number }>
}

/** All that is known. */
export interface Evidence {
  /** The requests of this call that arrived at an API, oldest first, with the environment that got them. */
  readonly requests: readonly Arrival[]
  readonly story: Story
  readonly troubles: readonly Trouble[]
  faultOf(place: Place, id: string): Fault | undefined
}

export interface Arrival {
  readonly place: Place
  readonly record: SandboxRequest
}

/** Why a call failed: the ids of what explains it, and the row of the table that it belongs to. */
export interface Explanation {
  readonly why: string
  readonly ids: readonly string[]
}
