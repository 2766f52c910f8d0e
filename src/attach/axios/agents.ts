/**
 * The caller's agents on the config of a call. An agent leads to the requests of all its calls, so log output of a config
 * must not reach it: it is not enumerable there. axios copies enumerable properties only, so a config that is sent again
 * gets its agents from the config before.
 */
import { inspect } from 'node:util'
import { axiosOf, chosenAdapter } from './config.ts'
import type { AxiosAdapter, AxiosAdapterOption, AxiosConfig } from './types.ts'

const AGENTS = ['httpAgent', 'httpsAgent'] as const
const { propertyIsEnumerable: isEnumerable } = Object.prototype

/** The parts of a config that have agents. */
export type Agents = Pick<AxiosConfig, (typeof AGENTS)[number] | 'fetchOptions'>

/** An adapter that this package puts on a config. */
export interface OwnAdapter extends AxiosAdapter {
  /** The adapter of the caller. */
  readonly given: AxiosAdapterOption
  /** The config, which has the agents. */
  config: AxiosConfig
}

export function isOwnAdapter(adapter: AxiosAdapterOption): adapter is OwnAdapter {
  return typeof adapter === 'function' && 'given' in adapter
}

export function hasAgents({ httpAgent, httpsAgent, fetchOptions }: Agents): boolean {
  return Boolean(httpAgent || httpsAgent || fetchOptions?.dispatcher)
}

export function hideAgents(config: AxiosConfig): void {
  define(config, { enumerable: false })
}

/**
 * Log output of a config before its adapter runs, such as that of the error of a call that is canceled: without the agents, which
 * any interceptor may set on it or on a copy. Enumerable, so that copies have it, too.
 */
const WITHOUT_AGENTS = { [inspect.custom]: withoutAgents, toJSON: asJson }

/** A config whose adapter has not run. */
type Guarded = AxiosConfig & Partial<typeof WITHOUT_AGENTS>

function withoutAgents(this: Guarded): object {
  const { [inspect.custom]: _, toJSON, ...shown } = this
  hideAgents(shown)
  return shown
}

/** As the error of axios would, which breaks circles in a config that has no `toJSON`. */
function asJson(this: Guarded): object | undefined {
  const { AxiosError } = axiosOf({ ...this, headers: this.headers ?? {} })
  return new AxiosError('', '', withoutAgents.call(this) as AxiosConfig).toJSON().config
}

/** The `runWhen` of the interceptor: axios calls it before any interceptor runs. */
export function guardAgents(config: object): true {
  Object.assign(config, WITHOUT_AGENTS)
  return true
}

/** Sends a config. Its agents are enumerable for adapters that copy it, as axios' fetch adapter does; its http adapter does not. */
export function withAgents<T>(
  config: Guarded,
  adapter: AxiosAdapterOption,
  send: () => Promise<T>,
): Promise<T> {
  delete config[inspect.custom]
  delete config.toJSON
  if (chosenAdapter(adapter) === 'http') {
    hideAgents(config)
    return send()
  }
  define(config, { enumerable: true })
  return send().finally(() => hideAgents(config))
}

function define(config: AxiosConfig, visibility: { readonly enumerable: boolean }): void {
  const { enumerable } = visibility
  for (const key of AGENTS)
    if (config[key] && isEnumerable.call(config, key) !== enumerable)
      Object.defineProperty(config, key, visibility)
  const { fetchOptions } = config
  const { dispatcher } = fetchOptions ?? {}
  // A copy, because an interceptor may have set an object of the caller's.
  if (dispatcher)
    config.fetchOptions = Object.defineProperty({ ...fetchOptions, dispatcher }, 'dispatcher', visibility)
}

/** Restores the agents that a config lost when it was copied, unless the copy has others than the instance's defaults. */
export function restoreAgents(copy: AxiosConfig, config: AxiosConfig, defaults?: Agents): void {
  for (const key of AGENTS) if (config[key] && isLost(copy, { key, defaults })) copy[key] = config[key]
  const dispatcher = config.fetchOptions?.dispatcher
  if (dispatcher && isLost(copy.fetchOptions, { key: 'dispatcher', defaults: defaults?.fetchOptions }))
    copy.fetchOptions = { ...copy.fetchOptions, dispatcher }
}

interface Place {
  readonly key: string
  readonly defaults: object | undefined
}

function isLost(holder: object = {}, { key, defaults }: Place): boolean {
  const isDefault = defaults !== undefined && Reflect.get(holder, key) === Reflect.get(defaults, key)
  return isDefault || !Object.hasOwn(holder, key)
}
