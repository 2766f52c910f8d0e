/** What a service does when its call to an API fails. Named in docs/production.md. */
import { isAxiosError } from 'axios'
import { isMerchantAuthError } from 'merchant-auth'
import { pauseAfter } from './first-token.ts'

/** Logs why a call to an API failed. Returns the response to the caller of the service; undefined for other errors. */
export function failureOf(error: unknown): { status: number; headers: Record<string, string> } | undefined {
  if (isMerchantAuthError(error)) {
    console.error(error.message) // no token at the moment
    return { status: 503, headers: { 'Retry-After': `${Math.ceil(pauseAfter(error) / 1_000)}` } }
  }
  if (!isAxiosError(error)) return undefined
  console.error('call to the API failed:', error.config?.method, error.config?.url, error.message)
  return { status: 502, headers: {} } // also for a 401 of the API: it is not about the caller's credentials
}
