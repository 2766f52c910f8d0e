/** What every client under measurement looks like to the parts of the benchmark. */
import type { AxiosAdapter } from 'axios'
import type { Dispatcher } from 'undici'

/** The payment service that a contender talks to. */
export interface Service {
  /** The token endpoint is `{authUrl}/oauth/token`. */
  readonly authUrl: string
  readonly audience: string
  readonly clientId: string
  readonly clientSecret: string
  /** No slash at its end. */
  readonly apiUrl: string
}

/** What replaces the network where the cost of the code alone is measured. A contender takes the one that it knows. */
export interface Transport {
  readonly adapter: AxiosAdapter
  readonly fetch: typeof fetch
  readonly dispatcher: Dispatcher
}

export interface Client {
  /** Makes one GET to `{apiUrl}{path}` with the token, and resolves with the status, also of a 401. */
  call(path?: string, options?: { signal?: AbortSignal }): Promise<number>
  close?(): Promise<void>
}

export interface Contender {
  readonly name: string
  readonly kind: 'ours' | 'peer' | 'naive' | 'floor'
  readonly client: 'axios' | 'fetch' | 'undici' | 'other'
  /** What a user installs for it. */
  readonly packages: readonly string[]
  /** What a reader has to know to judge its figures. */
  readonly note?: string
  /**
   * Sets it up as its documentation says. With a `transport` the calls to the API go there. Token requests go to
   * `service.authUrl` over the network, so that a token endpoint on loopback has to be there.
   */
  create(service: Service, transport?: Transport): Promise<Client>
}
