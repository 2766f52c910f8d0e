/** The public types of the sandbox. They import nothing of Node.js, because not every program has its types. */
import type { Environment } from '../environment/environment.ts'
import type { TokenEndpointAuthMethod } from '../options/options.ts'

/** Options of `startSandbox`: the settings with which both environments start, and these. */
export interface SandboxOptions extends Partial<SandboxSettings> {
  /**
   * The ports (0 to 65535) on 127.0.0.1; 0: a free one.
   * @default { production: 0, test: 0 }
   */
  readonly ports?:
    | {
        /** The port of `production`. */
        readonly production?: number | undefined
        /** The port of `test`. */
        readonly test?: number | undefined
      }
    | undefined
  /**
   * The name or the address of this machine where it listens, and which is in its URLs; `0.0.0.0`: all addresses, with the
   * first one in a network in the URLs. Anyone who can reach a host other than a loopback host can get tokens of the
   * sandbox, over http: never use real credentials there.
   * @default '127.0.0.1'
   */
  readonly host?: string | undefined
  /**
   * The clients that both environments accept, at least one, in place of one client of their own. Each gets tokens of its
   * own, and has a quota of its own.
   * @default one client for each environment, with a new secret in every sandbox
   * @example
   * const clients = ['store-1', 'store-2'].map((clientId) => ({ clientId, clientSecret: `secret of ${clientId}` }))
   * await using sandbox = await startSandbox({ clients })
   * const tokens = clients.map((client) => createTokenProvider({ ...sandbox.test.options, ...client }))
   */
  readonly clients?: readonly SandboxClient[] | undefined
  /**
   * The path of the token endpoint. With one, a token request needs no audience, and the environments have none.
   * @default '/oauth/token', and an audience for each environment
   */
  readonly tokenPath?: string | undefined
  /**
   * How clients must send their secret: as a field of the body, or by HTTP Basic (RFC 6749 §2.3.1).
   * @default 'client_secret_post'
   */
  readonly tokenEndpointAuthMethod?: TokenEndpointAuthMethod | undefined
  /**
   * Whether both APIs have one base URL, as at services that publish one address for both. Requests to it count as
   * requests to the merchant API; faults and settings for the in-store API do not apply.
   * @default false
   */
  readonly sharedApiUrl?: boolean | undefined
  /**
   * Called once for each request, when the response has been sent or its connection has closed before: for a hang, when its
   * client gives up. The request is complete then. `close` resolves after the last call. What a listener throws is
   * suppressed.
   * @default undefined
   * @example
   * const onRequest = ({ method, path, status }) => console.log(method, path, status)
   * await using sandbox = await startSandbox({ onRequest })
   */
  readonly onRequest?: ((request: SandboxRequest, environment: 'production' | 'test') => void) | undefined
}

/** A client that the token endpoint accepts. */
export interface SandboxClient {
  /** The client id. */
  readonly clientId: string
  /** The client secret. */
  readonly clientSecret: string
}

/** The service on this machine: two environments, each with its own port, audience, client and signing keys. */
export interface Sandbox extends AsyncDisposable {
  /** The environment named `production`. */
  readonly production: SandboxEnvironment
  /** The environment named `test`. */
  readonly test: SandboxEnvironment
  /** Ends all connections and frees the ports. Resolves when nothing is left open; may be called again. */
  close(): Promise<void>
}

/** One environment of the sandbox. */
export interface SandboxEnvironment {
  /** Ready for `createTokenProvider`: environment, client id and client secret. */
  readonly options: {
    /** The environment. */
    readonly environment: SandboxEnvironment['environment']
    /** The client id. */
    readonly clientId: string
    /** Returns the client secret. */
    readonly clientSecret: () => string
    /** As in the options of the sandbox. */
    readonly tokenEndpointAuthMethod?: TokenEndpointAuthMethod | undefined
  }
  /** The environment alone. */
  readonly environment: Environment & {
    /** The base URLs of the two APIs. */
    readonly apiUrls: Readonly<Record<'merchant' | 'inStore', string>>
  }
  /**
   * The environment variables that `optionsFromEnv` reads: for a service under test, which gets the same as in `options`.
   *
   * @example
   * Object.assign(process.env, sandbox.test.variables)
   */
  readonly variables: Readonly<Record<string, string>>
  /** The client id that the token endpoint accepts; with `clients`, the first one. */
  readonly clientId: string
  /** The client secret that it accepts at first, different in every sandbox; with `clients`, the first client's. */
  readonly clientSecret: string
  /** Base URL of the merchant API. It returns what it received, for any method and path below. */
  readonly merchantUrl: string
  /** Base URL of the in-store API. */
  readonly inStoreUrl: string
  /** How much it has received and issued since it started. Each read returns the current counts. */
  readonly counts: SandboxCounts
  /**
   * Changes settings for requests that arrive from now on; settings left out, or undefined, stay as they are.
   *
   * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every problem; then nothing is changed
   * @example
   * sandbox.test.configure({ lifetimeSeconds: 5, tokenLatencyMs: 200 })
   */
  configure(settings: Partial<SandboxSettings>): void
  /**
   * Replaces the client secrets that the token endpoint accepts: two during a rotation, none for a client that was
   * locked. Tokens issued before stay valid. With `clients`, these are the secrets of the first one.
   */
  acceptSecrets(...secrets: string[]): void
  /**
   * Revokes one token, by its value or its `jti`, or without an argument all that were issued so far: the APIs return
   * 401 to it from now on. Returns how many were valid until now.
   */
  revoke(token?: string): number
  /**
   * Applies a fault to the next requests to a target. Faults queue up: each target applies its own in the order in
   * which they were added, one to each request that arrives. Returns the fault's id, which is the response's header
   * `x-sandbox-fault` and, in `requests()`, the request's `fault`.
   *
   * @param options which requests, and how many
   * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every problem
   * @example
   * sandbox.test.fail('token', { kind: 'status', status: 503, retryAfter: 1 }, { times: 2 })
   * @example
   * // A 401 that is about the call: every call of this store gets one, whatever its token.
   * sandbox.test.fail('merchant', { kind: 'status', status: 401 }, { path: '/merchant/stores/7', times: Infinity })
   */
  fail(target: SandboxTarget, fault: Fault, options?: FaultOptions): string
  /** Removes the faults in the queue, of one target or of all. A fault that is being applied goes on. */
  clearFaults(target?: SandboxTarget): void
  /**
   * The requests received, oldest first, of one target or of all: the last 10 000. The list is a copy; an entry in it is
   * completed while its request is being handled.
   */
  requests(target?: SandboxTarget): readonly SandboxRequest[]
  /** Removes the requests received. The counts and the ids go on. */
  clearRequests(): void
}

/** What `startSandbox` and `SandboxEnvironment.configure` accept. Applies to requests that arrive from then on. */
export interface SandboxSettings {
  /**
   * `expires_in` of the tokens issued from now on: whole seconds, 1 to 2^31-1. Tokens issued before keep theirs.
   * @default 3600
   */
  readonly lifetimeSeconds: number
  /**
   * How long (ms, 0 to 2^31-1) the token endpoint waits before it checks a request and issues a token.
   * @default 0
   */
  readonly tokenLatencyMs: number
  /**
   * How long (ms, 0 to 2^31-1) the APIs wait before they respond, or a function that returns it, called for each
   * request. The token is checked before the wait, when the request arrives.
   * @default 0
   */
  readonly apiLatencyMs: number | (() => number)
  /**
   * Whether the APIs return 401 to every token, even a valid one; or a list of the APIs that do.
   * @default false
   */
  readonly rejectAllTokens: boolean | readonly ('merchant' | 'in-store')[]
  /**
   * The request header in which the APIs look for the token.
   * @default 'Authorization'
   */
  readonly header: string
  /**
   * The scheme before the token in that header, case-insensitive; `''`: the bare token.
   * @default 'Bearer'
   */
  readonly scheme: string
  /**
   * How many token requests each client may make, failed ones included: numbers by minute (`m`), hour (`h`) or day (`d`),
   * separated by commas, such as `10/h,50/d`. Every response of the token endpoint says what is left
   * (`Auth0-Client-Quota-Limit`); with nothing left it is 429. A new value starts a new count. `''`: no limit.
   * @default ''
   */
  readonly quota: string
  /**
   * Whether token requests that are refused because the quota is spent count, too. They count in a sliding window then: a
   * client that goes on asking does not get a token.
   * @default false
   */
  readonly quotaCountsRefused: boolean
  /**
   * Whether the responses say what is left of the quota; false: a spent quota is announced by a 429 alone.
   * @default true
   */
  readonly quotaHeaders: boolean
  /**
   * The public key, as PEM text or as a JWK, of a client that proves its identity by signed assertions (RFC 7523) instead
   * of its secret. Each assertion must have `iss`, `sub`, `aud` (the token endpoint or `authUrl`), `exp` and a `jti` that was
   * not used before.
   * @default undefined: assertions are not accepted
   */
  readonly assertionKey: string | Readonly<Record<string, unknown>> | undefined
  /**
   * The names of further fields that a token request may have: the option `tokenParameters` of the provider.
   * @default []
   */
  readonly tokenParameters: readonly string[]
}

/**
 * Something that goes wrong with one response. "The usual response" is the one that the request would get without a fault.
 * For the kinds that send it (`hang` at the body or with an end, `slow-body`, `truncated-body`, `huge-body`) the token endpoint
 * issues a token, and the APIs check one. All other kinds ignore the request.
 */
export type Fault =
  /** A status with a `Retry-After`, headers and a JSON body. */
  | {
      readonly kind: 'status'
      /** 200 to 599. */
      readonly status: number
      /** `Retry-After`: seconds, or a date as text. */
      readonly retryAfter?: number | string | undefined
      /** Further headers, by their names. */
      readonly headers?: Readonly<Record<string, string>> | undefined
      /** Any JSON value; by default there is no body. */
      readonly body?: unknown
    }
  /** Nothing is sent, or only the headers and half of the usual body, forever or for a while. The connection stays open. */
  | {
      readonly kind: 'hang'
      /** Where the response stops: before the headers, or in the middle of the body; by default `headers`. */
      readonly at?: 'headers' | 'body' | undefined
      /** When the response goes on, as after a freeze: ms, 0 to 2^31-1; by default never. */
      readonly durationMs?: number | undefined
    }
  /** The connection is reset (RST) instead of a response. */
  | { readonly kind: 'reset' }
  /** The usual response: the headers at once, the body in small pieces. */
  | {
      readonly kind: 'slow-body'
      /** How long the body takes: ms, 0 to 2^31-1. */
      readonly durationMs: number
    }
  /** The usual response, but the connection is closed after half of the body. */
  | { readonly kind: 'truncated-body' }
  /**
   * Status 200 and valid JSON of a wrong size: the usual response, padded but never cut. No Content-Length announces
   * the size.
   */
  | {
      readonly kind: 'huge-body'
      /** The size in bytes after decompression, 1 to 2^53-1; by default 10 MiB. */
      readonly bytes?: number | undefined
      /** Whether it is sent compressed; by default not. */
      readonly gzip?: boolean | undefined
    }
  /** Any JSON. */
  | {
      readonly kind: 'json'
      /** Any JSON value. */
      readonly body: unknown
      /** 200 to 599; by default 200. */
      readonly status?: number | undefined
    }
  /** Any text. */
  | {
      readonly kind: 'text'
      /** The text. */
      readonly body: string
      /** 200 to 599; by default 200. */
      readonly status?: number | undefined
      /** By default `text/plain; charset=utf-8`. */
      readonly contentType?: string | undefined
    }
  /** A redirect. */
  | {
      readonly kind: 'redirect'
      /** `Location`: the URL to redirect to. */
      readonly location: string
      /** 300 to 399; by default 307. */
      readonly status?: number | undefined
    }

/** Which requests a fault applies to. */
export interface FaultOptions {
  /**
   * How many: a whole number, at least 1, or Infinity: all until `clearFaults`.
   * @default 1
   */
  readonly times?: number | undefined
  /**
   * Only requests to this path, or to one that continues it at a `/`: `/merchant/stores/7`. It begins with the path of the
   * API, as in `requests()`, and has no query.
   * @default all requests to the target
   */
  readonly path?: string | undefined
}

/** What a request was for: the token endpoint, or one of the APIs. */
export type SandboxTarget = 'token' | 'merchant' | 'in-store'

/** The bytes of a body: a `Buffer` if the program has the types of Node.js, else its base class `Uint8Array`. */
export type SandboxBody = typeof globalThis extends { Buffer: { isBuffer(it: unknown): it is infer Bytes } }
  ? Bytes
  : Uint8Array

/** One request that the sandbox received. */
export interface SandboxRequest {
  /** Counts up from 1 in each environment; the response's `x-request-id`. */
  readonly id: number
  /** When it arrived, in ms since the epoch. */
  readonly at: number
  /** What it was for; absent if nothing is at this path (404). */
  readonly target?: SandboxTarget
  /** The method as sent, such as `GET`. */
  readonly method: string
  /** The path with its query as sent, with secrets hidden. */
  readonly path: string
  /**
   * Names in lower case; values of a repeated header are joined with a comma. A token that this environment issued
   * reads `[token <jti>]`; a client secret of it, and another `Authorization`, read `[hidden]`.
   */
  readonly headers: Readonly<Record<string, string>>
  /** The bytes of an API request, as far as they arrived; absent for other requests, because their bodies contain the secret. */
  readonly body?: SandboxBody
  /** The client, if it is known: the one that requested a token, or the one whose token the request carried. */
  readonly clientId?: string
  /** The fields of a token request, with `client_secret` hidden; absent if they could not be read. */
  readonly fields?: Readonly<Record<string, unknown>>
  /** The `jti` of the token that it carried, valid or not, if this environment issued it, or of the token in its response. */
  readonly jti?: string
  /** The status of the response; absent if none was begun (yet), for example after a hang or a reset. */
  readonly status?: number
  /** The error code of the response, such as `invalid_client` (RFC 6749 §5.2); absent for responses of faults. */
  readonly error?: string
  /** The error description of the response, if it had one. */
  readonly errorDescription?: string
  /** The id of the fault that was applied. */
  readonly fault?: string
  /** The time (ms) from its arrival until the response was sent or its connection closed. Absent until then. */
  readonly durationMs?: number
}

/** How much an environment has received and issued since it started. */
export interface SandboxCounts {
  /** Requests to the token endpoint, good or bad. */
  readonly token: number
  /** Requests to the merchant API. */
  readonly merchant: number
  /** Requests to the in-store API. */
  readonly 'in-store': number
  /** Tokens issued. */
  readonly issued: number
  /** Answers of the two APIs with status 401, including those of faults. */
  readonly unauthorized: number
}
