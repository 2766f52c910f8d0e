/**
 * The token on axios: attached inside the adapter, to the config that axios made for this call.
 *
 * @module merchant-auth/axios
 */
import { ConfigurationError, type Problem } from '../../base/errors.ts'
import { refuseOldNode } from '../../base/node-version.ts'
import type { AttachOptions } from '../../options/options.ts'
import type { TokenProvider } from '../../token/provider.ts'
import { isWithheld } from '../admit.ts'
import { type AuthorizedCall, authorize } from '../authorize.ts'
import { canSendAgain, isNodeStream, isObject, isWebStream } from '../body.ts'
import { type AttachContext, createAttachContext } from '../context.ts'
import { clearHeader, getHeader, type Header } from '../headers.ts'
import { type HeldBody, holdCopy, holdStream, holdUnread, isTooLarge } from '../held-body.ts'
import {
  guardAgents,
  hasAgents,
  hideAgents,
  isOwnAdapter,
  type OwnAdapter,
  restoreAgents,
  withAgents,
} from './agents.ts'
import {
  addConfig,
  admitConfig,
  axiosOf,
  chosenAdapter,
  DEFAULT_ADAPTERS,
  startWait,
  urlOf,
} from './config.ts'
import { removePlaced } from './interceptor.ts'
import { hideRequest, hideRequests, type Sent } from './log-output.ts'
import { createRedirectGuard, redirectTargetOf, watchRedirects, withoutRedirects } from './redirects.ts'
import type {
  AxiosAdapterOption,
  AxiosConfig,
  AxiosLike,
  AxiosRequestInterceptor,
  AxiosResponse,
} from './types.ts'

export { createAuthInterceptor } from './interceptor.ts'
export type { AuthInterceptor, AxiosLike, AxiosRequestInterceptor } from './types.ts'

refuseOldNode() // createAuthInterceptor needs no other entry

/** The interceptors of the instances that have a token attached. */
const attached = new WeakMap<AxiosLike, number>()

/**
 * Attaches the token to the calls of an axios instance below the environment's `apiUrls`. When an API returns 401
 * (RFC 6750 §3.1), it renews the token once and repeats the call. The token appears in no log output of errors and responses.
 * Other interceptors may be registered before or after, in any order; they do not see the token. All other calls pass through
 * unchanged.
 *
 * Calls reject as axios does, and as `TokenProvider.getToken` does if no token can be acquired. `signal`, `cancelToken`
 * and `timeout` (ms) also end a call's wait for a token, with axios' own errors; `timeout` applies to the wait and to each
 * send separately, as axios applies it (with its `http` adapter, not to a body that keeps coming).
 *
 * @param instance an axios instance (`axios.create()`, or axios itself), from any copy of axios 1.13 or newer, with no
 *   token attached yet
 * @param tokens the provider, which any number of instances may share
 * @param attach the header, its scheme, the statuses that renew
 * @returns a function that detaches the token; later calls go without it
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every invalid option; if the instance has a default header of the
 *   token's name; and if it already has a token attached
 * @example
 * const api = axios.create({ baseURL: 'https://api.test.example.com/merchant' })
 * attachAuth(api, tokens)
 */
export function attachAuth(instance: AxiosLike, tokens: TokenProvider, attach?: AttachOptions): () => void {
  const context = createAttachContext(tokens, attach)
  assertAttachable(instance, context)
  const wrapAdapter = (config: AxiosConfig): AxiosConfig => {
    const adapter = config.adapter || DEFAULT_ADAPTERS
    const given = isOwnAdapter(adapter) ? adapter.given : adapter
    if (isOwnAdapter(adapter)) restoreAgents(config, adapter.config, instance.defaults) // it is sent again
    removePlaced(config)
    hideAgents(config)
    let isSent = false
    const adapt = (final: AxiosConfig): Promise<AxiosResponse> => {
      if (final !== own.config) restoreAgents(final, own.config) // another interceptor has copied it, or it is sent again
      if (isSent) return axiosOf(final).getAdapter(given, final)(final) // by another instance
      isSent = true
      own.config = final
      final.adapter = hasAgents(final) ? own : given // own restores the agents of a config that is sent again
      return withAgents(final, given, () => callAdapter(final, given, context))
    }
    const own: OwnAdapter = Object.assign(adapt, { given, config })
    config.adapter = own
    return config
  }
  // Synchronous, so that axios does not wait where no other interceptor makes it wait.
  const id = instance.interceptors.request.use(wrapAdapter as object as AxiosRequestInterceptor, null, {
    synchronous: true,
    runWhen: guardAgents,
  })
  attached.set(instance, id)
  return () => {
    instance.interceptors.request.eject(id)
    if (attached.get(instance) === id) attached.delete(instance)
  }
}

function assertAttachable(instance: AxiosLike, { header, headerKey }: AttachContext): void {
  const reject = (kind: Problem['kind'], reason: string): never => {
    throw new ConfigurationError('The token cannot be attached', [{ option: 'instance', kind, reason }])
  }
  if (typeof instance?.interceptors?.request?.use !== 'function')
    reject(
      'invalid',
      'must be an axios instance (of NestJS: http.axiosRef), or a mock that has interceptors.request.use',
    )
  if (attached.has(instance))
    reject(
      'conflict',
      'already has a token attached: attachAuth ran twice in this program, in a module that a framework evaluates twice, or ' +
        'again after a hot reload; attach once, where the instance is created, or detach first ' +
        '(merchant-auth/docs/frameworks.md#hot-reload)',
    )
  const { headers = {} } = (instance.defaults ?? {}) as { headers?: object } // a mock may have none
  for (const defaults of [headers, ...Object.values(headers)])
    if (getHeader(defaults, headerKey) !== undefined)
      reject(
        'conflict',
        `has a default header ${header}, which would replace the token; delete it from instance.defaults.headers`,
      )
}

function callAdapter(
  config: AxiosConfig,
  adapter: AxiosAdapterOption,
  context: AttachContext,
): Promise<AxiosResponse> {
  const url = urlOf(config)
  const decision = admitConfig(config, url, context)
  if (decision === 'attach') return authorize(authorizedCall({ url, config, adapter }, context), context)
  return runAdapter(config, adapter).then((outcome) => {
    if (isWithheld(decision)) context.withheld.answered(decision, url, outcome.response?.status)
    return settle(outcome, { config })
  })
}

/** What an adapter resolved or rejected with. `failure`: what the call rejects with, whether or not there is a response. */
interface Outcome {
  readonly response?: AxiosResponse | undefined
  readonly failure?: { readonly error: unknown }
}

async function runAdapter(config: AxiosConfig, adapter: AxiosAdapterOption): Promise<Outcome> {
  try {
    return { response: await axiosOf(config).getAdapter(adapter, config)(config) }
  } catch (error) {
    return { response: responseOf(error, config), failure: { error } }
  }
}

interface FailedCall {
  readonly response?: AxiosResponse
  readonly cause?: { readonly response?: AxiosResponse & { readonly config?: unknown } } | null
}

/** The response of an error. The fetch adapter of axios 1.13.3 and 1.13.4 wraps the error that has it. */
function responseOf(error: unknown, config: AxiosConfig): AxiosResponse | undefined {
  const { response, cause } = (error ?? {}) as FailedCall
  return response ?? (cause?.response?.config === config ? cause.response : undefined)
}

/** Settles a call as its adapter did, with nothing in it that shows a token. */
function settle({ response, failure }: Outcome, sent: Sent): AxiosResponse {
  if (failure !== undefined) {
    hideRequests(failure.error, sent)
    throw failure.error
  }
  if (isObject(response)) hideRequest(response, sent) // a mock may return none
  return response as AxiosResponse
}

/** A call as its adapter gets it. */
interface CallParts {
  readonly url: string
  readonly config: AxiosConfig
  readonly adapter: AxiosAdapterOption
}

/** One axios request with the token. */
function authorizedCall(
  { url, config, adapter }: CallParts,
  context: AttachContext,
): AuthorizedCall<Outcome, AxiosResponse> {
  const { destinations, isAuthorization } = context
  const { beforeRedirect: given, data, env, fetchOptions } = config
  const mayFetch = chosenAdapter(adapter) !== 'http'
  let header: Header | undefined
  let hasLeft = false // a redirect took the token off
  return {
    url,
    api: destinations(url).api,
    method: config.method?.toUpperCase(),
    repeatable: canSendAgain(data),
    body: data,
    startWait: () => startWait(config, adapter),
    onError: (error) => addConfig(error, config),
    // The token is on the config only until the adapter settles.
    send: async ({ token, body }) => {
      const sent = context.headerFor(token)
      header = sent
      config.data = body
      config.headers[sent.name] = sent.value
      config.beforeRedirect = createRedirectGuard({ url, header: sent, destinations, given }, () => {
        hasLeft = true
      })
      if (mayFetch) {
        config.env = { ...env, fetch: watchRedirects(env?.fetch) }
        if (!isAuthorization) config.fetchOptions = withoutRedirects(fetchOptions)
      }
      const outcome = await runAdapter(config, adapter)
      clearHeader(config.headers, sent)
      config.beforeRedirect = given
      if (mayFetch) Object.assign(config, { env, fetchOptions })
      return outcome
    },
    statusOf: ({ response }) => response?.status,
    rejectionOf: ({ response }) => {
      const { headers, request } = response as AxiosResponse // it has a status
      const challenge = getHeader(headers, 'www-authenticate')
      return { challenge, redirectedTo: hasLeft ? '' : redirectTargetOf(request) }
    },
    hold,
    settle: (outcome) => settle(outcome, { config, header }),
  }
}

/** A stream is held; anything else the adapter has read. */
function hold({ response }: Outcome): HeldBody | undefined {
  const { data, headers } = response as AxiosResponse // it has a status
  if (!isNodeStream(data) && !isWebStream(data)) return holdUnread()
  if (isTooLarge(getHeader(headers, 'content-length'))) return undefined
  if (isNodeStream(data)) {
    const held = holdStream(data)
    Object.assign(response as AxiosResponse, { data: held.body })
    return held
  }
  const [copy, callers] = data.tee()
  Object.assign(response as AxiosResponse, { data: callers })
  return holdCopy(copy, () => callers.cancel())
}
