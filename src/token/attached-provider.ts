/** What a provider and its attachments tell each other, besides what anybody may call. */
import type { Environment } from '../environment/environment.ts'
import { createEmit, type Emitter } from '../events/emit.ts'

/** How an API answered a call with the token. */
export interface CallAnswer {
  readonly url: string
  readonly method: string | undefined
  readonly token: { readonly value: string }
  readonly status: number
  /** Whether the status is one of those that reject a token. */
  readonly isRejection: boolean
  /** The token with which the call was sent before, and rejected. */
  readonly rejected: { readonly value: string } | undefined
}

/** What attachments tell a provider, besides what anybody may call. */
export interface AttachedProvider extends Emitter {
  /** Whether it uses what is reported to it. */
  readonly isReportedTo: boolean
  /** An API answered a call. */
  answered(call: CallAnswer): void
}

/**
 * What the attachments of each provider need. Bundlers and loaders may load this module twice, for `import` and for
 * `require`: all copies use the same map. The number is another one where {@link AttachedProvider} changes.
 */
const REGISTRY = Symbol.for('merchant-auth providers 1')
const global = globalThis as { [REGISTRY]?: WeakMap<object, AttachedProvider> }
global[REGISTRY] ??= new WeakMap()
const providers = global[REGISTRY]

/** Registers what the attachments of a provider need. */
export function registerProvider(provider: object, attached: AttachedProvider): void {
  providers.set(provider, attached)
}

/**
 * What attachments of a provider need. For a provider that the caller implements: the diagnostics channel and its current
 * token.
 */
export function attachedProviderOf(provider: {
  readonly environment: Environment
  currentToken(): { readonly value: string } | undefined
}): AttachedProvider {
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
    isReportedTo: false,
    answered: () => {},
  }
}
