/** What a caller meets on a call to the merchant API: compared with and without this package, and searched for tokens. */
import { createHash } from 'node:crypto'
import axios, { type AxiosInstance, type AxiosRequestConfig } from 'axios'

const BODY = JSON.stringify({ amount: 100 })

export type Caller = AxiosInstance | typeof fetch

export interface Met {
  /** What is the same with the token and without this package. */
  readonly seen: { readonly short: string; readonly [part: string]: unknown }
  /** All that the caller can print. */
  readonly printable: readonly unknown[]
}

export interface Limits {
  readonly url: string
  readonly limitMs: number | undefined
  readonly config: AxiosRequestConfig
}

/** One POST, and all that came of it. */
export async function met(caller: Caller, limits: Limits): Promise<Met> {
  if (!isAxios(caller)) return metByFetch(caller, limits)
  const { url, limitMs, config } = limits
  const headers = { 'content-type': 'application/json' }
  const call = caller.post(url, BODY, { ...config, timeout: limitMs ?? 0, headers })
  const [answer, error] = await call.then(
    (response) => [response, undefined] as const,
    (reason: unknown) => {
      if (!axios.isAxiosError(reason)) throw reason
      return [reason.response, reason] as const
    },
  )
  const data: unknown = answer?.data
  return {
    seen: {
      short: [error && shortly(error), shownAnswer(answer?.status, data)].filter(Boolean).join(', '),
      ...shownError(error),
      headers: answer && constant({ ...answer.headers }),
      data: digest(data),
      requests: [error?.request !== undefined, answer?.request !== undefined],
      config: Object.keys(error?.config ?? answer?.config ?? {}),
    },
    printable: [
      error,
      error?.config,
      error?.cause,
      error?.toJSON(),
      answer,
      answer?.config,
      answer?.headers,
      data,
    ],
  }
}

async function metByFetch(caller: typeof fetch, { url, limitMs }: Limits): Promise<Met> {
  const signal = limitMs === undefined ? null : AbortSignal.timeout(limitMs)
  const headers = { 'content-type': 'application/json' }
  const printable: unknown[] = []
  let answer: Response | undefined
  let text: string | undefined
  let error: Error | undefined
  try {
    answer = await caller(url, { method: 'POST', body: BODY, signal, headers })
    text = await answer.text()
  } catch (reason) {
    error = reason as Error
  }
  printable.push(answer, text, error, error?.cause)
  const status = answer?.status
  return {
    seen: {
      short: [error && shortly(error), shownAnswer(status, text)].filter(Boolean).join(', '),
      ...shownError(error),
      headers: answer && constant(Object.fromEntries(answer.headers)),
      data: digest(text),
      redirected: answer?.redirected,
    },
    printable,
  }
}

/** The code by which a program tells errors apart, or else the name. */
function shortly(error: Error): string {
  const { code } = error as { code?: unknown }
  const { code: inner } = (error.cause ?? {}) as { code?: string }
  if (typeof code === 'string') return code
  return inner === undefined ? error.name : `${error.name} (${inner})`
}

function shownAnswer(status: number | undefined, data: unknown): string {
  if (status === undefined) return ''
  const length = typeof data === 'string' ? data.length : JSON.stringify(data ?? '').length
  return length >= 2 ** 20 ? `status ${status}, 1 MiB` : `status ${status}`
}

function shownError(error: Error | undefined): Record<string, unknown> {
  if (error === undefined) return {}
  const { name, message, cause } = error
  const { code, name: causeName } = (cause ?? {}) as { code?: string; name?: string }
  const kind = error.constructor.name
  return {
    name,
    kind,
    message,
    code: Reflect.get(error, 'code'),
    cause: code,
    causeName,
    keys: Object.keys(error).filter((key) => key !== 'request'),
  }
}

/** The headers of an answer that are the same each time. */
function constant(headers: Record<string, unknown>): unknown {
  const { date: _, 'x-request-id': _id, 'x-sandbox-fault': _fault, ...rest } = headers
  return rest
}

/** Of the content: in which order the headers came, which the sandbox sends back, is of no interest. */
function digest(data: unknown): string {
  const content: unknown = typeof data === 'string' && data.startsWith('{') ? JSON.parse(data) : data
  const text = JSON.stringify(content, (_, value: unknown) =>
    isRecord(value) ? Object.fromEntries(Object.entries(value).sort(([x], [y]) => (x < y ? -1 : 1))) : value,
  )
  return createHash('sha256')
    .update(text ?? '')
    .digest('hex')
}

function isRecord(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isAxios(caller: Caller): caller is AxiosInstance {
  return 'interceptors' in caller
}
