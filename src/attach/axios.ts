/**
 * The token on axios: decided, sent and repeated inside the adapter, on the final config.
 *
 * @module merchant-auth/axios
 */
import { ConfigurationError } from '../errors.ts'
import type { AttachOptions } from '../options.ts'
import type { TokenProvider } from '../token/provider.ts'
import { authorize } from './authorized-call.ts'
import { OwnAdapters, originalAdapter } from './axios-adapters.ts'
import { AxiosCall } from './axios-call.ts'
import { type AxiosCopy, axiosCopyOf } from './axios-copy.ts'
import { takeOffPlaced } from './axios-interceptor.ts'
import { copyForSend, hideAgents, hideInAnswer, hideInFailure, settle } from './axios-redact.ts'
import { hasOwnHeader, UrlReader, whyConfigWithheld } from './axios-request.ts'
import {
  type AxiosAdapter,
  type AxiosAdapterOption,
  type AxiosAnswer,
  type AxiosConfig,
  type AxiosLike,
  type AxiosRequestInterceptor,
  asAxiosConfig,
} from './axios-types.ts'
import { type AttachContext, createAttachContext } from './context.ts'

export { createAuthInterceptor } from './axios-interceptor.ts'
export type { AxiosLike, AxiosRequestInterceptor } from './axios-types.ts'

const DEFAULT_ADAPTERS = ['xhr', 'http', 'fetch']

const attached = new WeakSet<AxiosLike>()

/**
 * Puts the token on the calls of an axios instance below the environment's `apiUrls`, renews it once when an API
 * answers 401 (RFC 6750 §3.1), and then makes the call once more. The token is in no error and no response that callers get.
 * Other interceptors may be registered before or after, in any order. All other calls pass through untouched.
 *
 * Calls reject as axios does, and as `TokenProvider.getToken` does where a call needs a token that cannot be
 * had. `signal`, `cancelToken` and `timeout` (ms) of a call end its wait for a token, too, with axios' own errors;
 * `timeout` bounds the wait and each send by itself.
 *
 * @param instance an axios instance (`axios.create()`, or axios itself), from any copy of axios 1.13 or newer. It can
 *   have one token attached at a time
 * @param tokens the provider, which any number of instances may share
 * @param attach the header, its scheme, the statuses that renew
 * @returns takes all of it off the instance again; calls that are not sent yet then go without the token
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every wrong option, where the instance has a default
 *   header of the token's name, and where it has been attached before
 * @example
 * const api = axios.create({ baseURL: 'https://api.test.example.com/merchant' })
 * attachAuth(api, tokens)
 */
export function attachAuth(instance: AxiosLike, tokens: TokenProvider, attach?: AttachOptions): () => void {
  const context = createAttachContext(tokens, attach)
  assertAttachable(instance, context)
  const attachment: Attachment = {
    context,
    copy: axiosCopyOf(instance),
    adapters: new OwnAdapters(),
    urls: new UrlReader(),
    attached: true,
  }
  const wrap: AxiosRequestInterceptor = (config) => {
    wrapAdapter(asAxiosConfig(config), attachment, instance)
    return config
  }
  // It returns at once: axios need not wait for it, where it does not wait for another one.
  const id = instance.interceptors.request.use(wrap, null, { synchronous: true })
  attached.add(instance)
  return () => {
    if (!attachment.attached) return
    attachment.attached = false
    attached.delete(instance)
    instance.interceptors.request.eject(id)
  }
}

interface Attachment {
  readonly context: AttachContext
  readonly copy: AxiosCopy
  readonly adapters: OwnAdapters
  readonly urls: UrlReader
  /** False once it was taken off; calls that had begun before then go on without the token. */
  attached: boolean
}

function assertAttachable(instance: AxiosLike, { header, headerKey }: AttachContext): void {
  const refuse = (reason: string): never => {
    throw new ConfigurationError('The token cannot be attached', [{ option: 'instance', reason }])
  }
  if (typeof instance?.interceptors?.request?.use !== 'function') refuse('must be an axios instance')
  if (attached.has(instance)) refuse('has a token attached already; take that off first')
  const defaults: unknown = Reflect.get(instance.defaults, 'headers')
  const buckets = [defaults, ...Object.values(defaults ?? {})].filter((bucket) => typeof bucket === 'object')
  if (
    buckets.some((bucket) => bucket !== null && hasOwnHeader(bucket as Record<string, unknown>, headerKey))
  ) {
    refuse(
      `has a default header ${header}, which would take the place of the token; delete it from instance.defaults.headers`,
    )
  }
}

function wrapAdapter(config: AxiosConfig, attachment: Attachment, instance: AxiosLike): void {
  prepare(config, attachment) // a call may be cancelled, and its config shown, before its adapter runs
  const original = originalAdapter(config.adapter || undefined) // as axios takes what is falsy
  config.adapter = attachment.adapters.get(original) ?? newAdapter(original, attachment, instance)
}

function newAdapter(
  original: AxiosAdapterOption | undefined,
  attachment: Attachment,
  instance: AxiosLike,
): AxiosAdapter {
  const adapter: AxiosAdapter = (final) => {
    final.adapter = original
    const chosen = original ?? (instance.defaults as Partial<AxiosConfig>).adapter ?? DEFAULT_ADAPTERS
    return run(final, chosen, attachment)
  }
  attachment.adapters.set(original, { adapter, context: attachment.context })
  return adapter
}

function run(config: AxiosConfig, adapter: AxiosAdapterOption, attachment: Attachment): Promise<AxiosAnswer> {
  const { context, copy } = attachment
  if (!attachment.attached) return sendWithout(config, adapter, copy)
  const url = prepare(config, attachment) // another interceptor may have changed it
  const withheld = whyConfigWithheld(context, url, config)
  if (withheld === undefined)
    return authorize(new AxiosCall(url, config, adapter, { context, copy }), context)
  context.emitWithheld(withheld, url)
  return sendWithout(config, adapter, copy)
}

/** Takes away what would show a token, or be in its way, and gives the URL that is called. */
function prepare(config: AxiosConfig, { context, urls }: Attachment): string {
  const url = urls.urlOf(config)
  hideAgents(config)
  takeOffPlaced(config, context, url)
  return url
}

async function sendWithout(
  config: AxiosConfig,
  adapter: AxiosAdapterOption,
  copy: AxiosCopy,
): Promise<AxiosAnswer> {
  const call = { config, sent: copyForSend(config) }
  const { sent } = call
  try {
    const answer = await copy.resolveAdapter(adapter, sent)(sent)
    settle(call)
    hideInAnswer(answer, call)
    return answer
  } catch (error) {
    settle(call)
    hideInFailure(error, call)
    throw error
  }
}
