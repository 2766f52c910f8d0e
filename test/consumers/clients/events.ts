import type { AuthEvent } from 'merchant-auth'

/** All events that were emitted so far. */
export const events: AuthEvent[] = []

export function onEvent(event: AuthEvent): void {
  events.push(event)
}
