/** The events that are worth a line in a log. Shown in docs/events.md. */
import { subscribe } from 'node:diagnostics_channel'
import type { AuthEvent } from 'merchant-auth'

export function logEvent(event: AuthEvent): void {
  if (event.type === 'token-request-failed') console.warn('token request failed:', event.code, event.status)
  if (event.type === 'renewal-suppressed') console.warn('rejected token not renewed:', event.api)
  if (event.type === 'store-failed') console.warn('token store failed:', event.operation, event.code)
  if (event.type === 'token-withheld') console.warn('sent without the token:', event.url, event.reason)
  if (event.type === 'token-acquired')
    for (const { name, remaining } of event.quota ?? []) console.log('token requests left:', name, remaining)
}

subscribe('merchant-auth', (event) => logEvent(event as AuthEvent)) // or onEvent: logEvent, for one provider
