/** What the callers of the service get when a call to the API fails. */
import { isAxiosError } from 'axios'

export interface Failure {
  readonly status: number
  readonly title: string
}

export function failureOf(error: unknown): Failure {
  if (isAxiosError(error) && error.response?.status === 404) return { status: 404, title: 'No such order' }
  if (isAxiosError(error) && !error.response)
    return { status: 503, title: 'The payment service cannot be reached' }
  if (isAxiosError(error)) return { status: 502, title: 'The payment service failed' }
  return { status: 500, title: 'Failed' }
}
