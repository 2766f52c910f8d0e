/**
 * What the config of an axios call says: its URL, its adapter, its copy of axios, whether it gets the token, and for how
 * long it waits.
 */
// Not by its name: bundles of axios often have a banner that declares `createRequire`.
import * as nodeModule from 'node:module'
import importedAxios from 'axios'
import { startTimer } from '../../base/clock.ts'
import { isMerchantAuthError } from '../../base/errors.ts'
import { onAbort } from '../../base/waiting.ts'
import { admit, type Decision } from '../admit.ts'
import type { Wait } from '../authorize.ts'
import type { AttachContext } from '../context.ts'
import { getHeader } from '../headers.ts'
import type { AxiosAdapter, AxiosAdapterOption, AxiosConfig, AxiosModule } from './types.ts'

/** The adapter of a config that names none. */
export const DEFAULT_ADAPTERS: readonly string[] = ['xhr', 'http', 'fetch']

const ABSOLUTE = /^([a-z][a-z\d+\-.]*:)?\/\//i

/** The URL that axios' adapters call, without the params: `baseURL` and `url` as axios combines them. */
export function urlOf({ baseURL, url, allowAbsoluteUrls }: AxiosConfig): string {
  const given = String(url ?? '')
  if (!baseURL || (allowAbsoluteUrls !== false && ABSOLUTE.test(given))) return given
  return given === '' ? baseURL : `${baseURL.replace(/\/?\/$/, '')}/${given.replace(/^\/+/, '')}`
}

/** Decides on a call of this URL: see {@link admit}. */
export function admitConfig(config: AxiosConfig, url: string, context: AttachContext): Decision {
  const { headers, auth, socketPath } = config
  const header = getHeader(headers, context.headerKey)
  const target = socketPath ? '' : url
  const decision = admit(context, target, { header, credentials: Boolean(auth) })
  context.withheld.decided(decision, target)
  return decision
}

/** The adapter that axios chooses: of a list, in Node.js the first one but xhr. */
export function chosenAdapter(adapter: AxiosAdapterOption): AxiosAdapter | string | undefined {
  return typeof adapter === 'object' ? adapter.find((one) => one !== 'xhr') : adapter
}

/** Starts a wait that the caller's `signal`, `cancelToken` and `timeout` end with axios' own errors. */
export function startWait(config: AxiosConfig, adapter: AxiosAdapterOption): Wait {
  const { signal, cancelToken, timeout = 0 } = config
  // Thousands of calls may wait when a service starts: a signal for each costs time and memory.
  if (signal === undefined && cancelToken === undefined && timeout <= 0)
    return { signal: undefined, end: () => {} }
  const { AxiosError, CanceledError } = axiosOf(config)
  const controller = new AbortController()
  const onTime = (): void => {
    const message = config.timeoutErrorMessage || `timeout of ${timeout}ms exceeded`
    const clarify = chosenAdapter(adapter) === 'fetch' || config.transitional?.clarifyTimeoutError
    controller.abort(new AxiosError(message, clarify ? 'ETIMEDOUT' : 'ECONNABORTED', config))
  }
  const onCancel = (reason: unknown): void => controller.abort(reason)
  const stopTimer = timeout > 0 ? startTimer(onTime, timeout) : undefined
  const stopSignal = onAbort(signal, () => controller.abort(new CanceledError(undefined, config)))
  cancelToken?.subscribe(onCancel)
  return {
    signal: controller.signal,
    end: () => {
      stopTimer?.()
      stopSignal()
      cancelToken?.unsubscribe(onCancel)
    },
  }
}

/** Adds the config to an error of this package: interceptors and axios-retry read it. Log output does not show it. */
export function addConfig(error: unknown, config: AxiosConfig): void {
  if (isMerchantAuthError(error)) Object.defineProperty(error, 'config', { value: config, writable: true })
}

let requiredAxios: AxiosModule | undefined

/**
 * The copy of axios that made a config, because callers expect its errors. axios has different classes as an ES module and
 * as a CommonJS module. If it is neither of those that this package finds, `isAxiosError` still holds for the errors.
 */
export function axiosOf({ headers }: AxiosConfig): AxiosModule {
  const imported: AxiosModule = importedAxios as object as AxiosModule
  if (headers.constructor === imported.AxiosHeaders) return imported
  try {
    requiredAxios ??= nodeModule.createRequire(import.meta.url)('axios') as AxiosModule
    if (headers.constructor === requiredAxios.AxiosHeaders) return requiredAxios
  } catch {} // bundled, without a node_modules folder
  return imported
}
