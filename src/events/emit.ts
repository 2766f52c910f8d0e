/** Where events are emitted: `onEvent` and the diagnostics channel. */
import { type Channel, channel } from 'node:diagnostics_channel'
import type { AuthEvent, StoreFailedEvent } from './events.ts'

const diagnostics: Channel = channel('merchant-auth')

/** Emits an event, without its undefined fields. A function that creates it is called only if somebody listens. */
export type Emit = (event: AuthEvent | (() => AuthEvent)) => void

/** Emits the events of one provider. Errors of `onEvent` are ignored. `unheard` gets failures of the store while nobody listens. */
export function createEmit(
  onEvent: ((event: AuthEvent) => void) | undefined,
  environment: string | undefined,
  unheard?: (event: StoreFailedEvent) => void,
): Emit {
  return (given) => {
    if (onEvent === undefined && !diagnostics.hasSubscribers) {
      if (typeof given === 'object' && given.type === 'store-failed') unheard?.(given)
      return
    }
    const event = eventOf(typeof given === 'function' ? given() : given, environment)
    try {
      const returned: unknown = onEvent?.(event)
      // A promise of any realm, or of a library that replaces promises.
      if (isThenable(returned)) returned.then(undefined, () => {})
    } catch {
      // An error in a listener must not affect the call.
    }
    if (diagnostics.hasSubscribers) diagnostics.publish(event)
  }
}

/** What an attachment needs from a provider to emit events. */
export interface Emitter {
  readonly emit: Emit
  /** The client secrets and tokens that no event may contain. */
  readonly secrets: Iterable<string>
}

/** An event as listeners get it: without the fields that are undefined, frozen. */
function eventOf(created: AuthEvent, environment: string | undefined): AuthEvent {
  const fields = Object.entries({ ...created, environment }).filter(([, value]) => value !== undefined)
  return Object.freeze(Object.fromEntries(fields)) as unknown as AuthEvent
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { readonly then?: unknown } | null | undefined)?.then === 'function'
}
