/** The events that are worth a line in a log. docs/errors.md names this file. */
import { subscribe } from 'node:diagnostics_channel'
import type { AuthEvent } from 'merchant-auth'

/** What a 401 is about that renews nothing: see docs/troubleshooting.md#401. */
const CASES = { accepted: 'one call', limited: 'every call', quota: 'quota', cooldown: 'cooldown' }

export function logEvent(event: AuthEvent): void {
  const log = (...parts: unknown[]) =>
    console.warn([...parts, event.environment].filter((part) => part !== undefined).join(' '))
  if (event.type === 'token-request-failed') log('token request failed:', event.code, event.status)
  if (event.type === 'renewal-suppressed')
    log(`token not renewed (${CASES[event.reason]}):`, event.method, event.url)
  if (event.type === 'store-failed') log('token store failed:', event.operation, event.code)
  if (event.type === 'token-withheld') log('sent without the token:', event.url, event.reason)
  if (event.type === 'token-acquired')
    for (const { name, remaining } of event.quota ?? []) log('token requests left:', name, remaining)
}

subscribe('merchant-auth', (event) => logEvent(event as AuthEvent)) // or onEvent: logEvent, for one provider
