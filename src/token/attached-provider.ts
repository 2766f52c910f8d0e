/** What a provider and its attachments tell each other, besides what anybody may call. */
import type { Api, Environment } from '../environment/environment.ts'
import { createEmit, type Emitter } from '../events/emit.ts'
import type { RenewOptions } from './provider.ts'
import type { Answer } from './rejection.ts'
import type { AccessToken } from './request/access-token.ts'

/** How an API answered a call with a token. */
export interface CallAnswer extends Answer {
  readonly api: Api | undefined
}

/** A call that an API rejected. */
export interface RejectedCall extends RenewOptions {
  /** The tokens that it was rejected with, the last one last. */
  readonly rejected: readonly AccessToken[]
  /** Whether it can be sent again. */
  readonly canRepeat: boolean
}

/** A token to send a rejected call again with. */
export interface Replacement {
  readonly token: AccessToken
  /** Whether it was not requested for this API: if it is rejected, too, another one may follow. */
  readonly isFree: boolean
}

/** What attachments tell a provider, besides what anybody may call. */
export interface AttachedProvider extends Emitter {
  /** An API answered a call. */
  answered(answer: CallAnswer): void
  /** As `renewToken`, for a call whose answers are reported. */
  replacementFor(call: RejectedCall): Promise<Replacement | undefined>
}

/**
 * What the attachments of each provider need. Bundlers and loaders may load this module twice, for `import` and for
 * `require`: all copies use the same map. The number is another one where {@link AttachedProvider} changes.
 */
const REGISTRY = Symbol.for('merchant-auth providers 3')
const global = globalThis as { [REGISTRY]?: WeakMap<object, AttachedProvider> }
global[REGISTRY] ??= new WeakMap()
const providers = global[REGISTRY]

/** Registers what the attachments of a provider need. */
export function registerProvider(provider: object, attached: AttachedProvider): void {
  providers.set(provider, attached)
}

/** The parts of a provider that the caller implements. */
interface OtherProvider {
  readonly environment: Environment
  currentToken(): AccessToken | undefined
  renewToken(rejected: AccessToken, options: RenewOptions): Promise<AccessToken | undefined>
}

/** What attachments of a provider need. One that the caller implements emits to the diagnostics channel alone. */
export function attachedProviderOf(provider: OtherProvider): AttachedProvider {
  const registered = providers.get(provider)
  if (registered !== undefined) return registered
  const secrets = {
    *[Symbol.iterator]() {
      const token = provider.currentToken()
      if (token !== undefined) yield token.value
    },
  }
  return {
    emit: createEmit(undefined, provider.environment.name),
    secrets,
    answered: () => {},
    replacementFor: async ({ rejected, signal, url, method }) => {
      const token = await provider.renewToken(rejected.at(-1) as AccessToken, { signal, url, method })
      return token && { token, isFree: false }
    },
  }
}
