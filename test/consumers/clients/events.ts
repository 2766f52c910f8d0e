import type { AuthEvent } from 'merchant-auth'

/** The events so far. */
export const events: AuthEvent[] = []

export function onEvent(event: AuthEvent): void {
  events.push(event)
}
