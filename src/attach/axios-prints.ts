/** Takes the token out of everything that a print of an axios answer or error shows. */
import { errorMonitor } from 'node:events'
import type { AxiosAnswer, AxiosFailure } from './axios-types.ts'

/** What node's IncomingMessage leads back to the request with. */
const WAYS_BACK = ['req', 'socket', 'client']

/** Hides the request, which holds the raw text of its headers. `response.request` still works. */
export function hideInAnswer(response: AxiosAnswer, headerKey: string): void {
  hideRequest(response, headerKey)
  const { data } = response
  if (!isNodeStream(data)) return
  for (const key of WAYS_BACK) hide(data, key)
  // A stream may fail, or be cancelled, long after the answer was handed out: with an AxiosError that has a request.
  data.on(errorMonitor, (error) => {
    if (typeof error === 'object' && error !== null) hideRequest(error, headerKey)
  })
}

/** Hides the same in an error. `error.request` still tells "no answer" from "bad answer". */
export function hideInFailure(error: AxiosFailure, headerKey: string): void {
  hideRequest(error, headerKey)
  if (error.response !== undefined) hideInAnswer(error.response, headerKey)
}

function hideRequest(holder: AxiosFailure | AxiosAnswer, headerKey: string): void {
  // The fetch adapter's Request has been sent, and can be cleaned; node's ClientRequest cannot.
  if (holder.request instanceof Request) holder.request.headers.delete(headerKey)
  hide(holder, 'request')
}

/** Makes a property an accessor that no print shows the value of. */
function hide(holder: object, key: string): void {
  const descriptor = Object.getOwnPropertyDescriptor(holder, key)
  if (descriptor === undefined || descriptor.value === undefined || !descriptor.configurable) return
  let value: unknown = descriptor.value
  Object.defineProperty(holder, key, {
    configurable: true,
    enumerable: false,
    get: () => value,
    set: (replacement: unknown) => {
      value = replacement
    },
  })
}

interface NodeStream {
  on(event: typeof errorMonitor, listener: (error: unknown) => void): void
}

function isNodeStream(data: unknown): data is NodeStream {
  return (
    typeof data === 'object' &&
    data !== null &&
    'pipe' in data &&
    'on' in data &&
    typeof data.on === 'function'
  )
}
