/** Quotas for token requests, as events and errors show them. */

/** A quota for token requests, as a response of the token endpoint reports it. */
export interface Quota {
  /** Whether it applies to this client, or to all clients of its organization; `other`: the response does not say. */
  readonly scope: 'client' | 'organization' | 'other'
  /** The service's name for it, for example `per_hour`. */
  readonly name: string
  /** How many token requests it has when it is full; undefined if the response does not say. */
  readonly limit?: number | undefined
  /** How many token requests are left. */
  readonly remaining: number
  /** Delay (ms) until it is full again; undefined if the response does not say. */
  readonly resetsInMs?: number | undefined
}
