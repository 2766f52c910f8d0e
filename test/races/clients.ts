/** The three clients with the token attached, each with a sender in place of the network. */
import { Readable } from 'node:stream'
import axios, { CanceledError, type InternalAxiosRequestConfig } from 'axios'
import { attachAuth } from '../../src/attach/axios/index.ts'
import { createAuthDispatch } from '../../src/attach/undici/index.ts'
import type { Controller, Dispatch } from '../../src/attach/undici/types.ts'
import { createAuthFetch, type TokenProvider } from '../../src/index.ts'

export const CLIENTS = ['fetch', 'axios', 'undici'] as const
export type ClientName = (typeof CLIENTS)[number]

/** A call as an API gets it. */
export interface Sent {
  readonly url: string
  readonly authorization: string | undefined
  readonly signal: AbortSignal | undefined
}

export interface Answer {
  readonly status: number
  /** Where the call was redirected to. */
  readonly redirectedTo?: string | undefined
}

export type Send = (sent: Sent) => Promise<Answer>

interface ClientCall {
  readonly signal: AbortSignal | undefined
  /** Whether its body is a stream, which cannot be sent twice. */
  readonly isStream: boolean
}

/** Makes a call, and resolves with the status. */
export type Client = (url: string, call: ClientCall) => Promise<number>

export function createClients(provider: TokenProvider, send: Send): Readonly<Record<ClientName, Client>> {
  return {
    fetch: fetchClient(provider, send),
    axios: axiosClient(provider, send),
    undici: undiciClient(provider, send),
  }
}

/** Whether a client rejects with this error when a call is aborted with this reason. */
export function isAbort(client: ClientName | undefined, error: unknown, reason: unknown): boolean {
  return client === 'axios' ? error instanceof CanceledError : error === reason
}

function fetchClient(provider: TokenProvider, send: Send): Client {
  const authFetch = createAuthFetch(provider, {
    fetch: async (input, init) => {
      const authorization = new Headers(init?.headers).get('authorization') ?? undefined
      return responseTo(await send({ url: String(input), authorization, signal: init?.signal ?? undefined }))
    },
  })
  return async (url, { signal, isStream }) => {
    const body = isStream ? new ReadableStream() : 'x'
    const { status } = await authFetch(url, { method: 'POST', body, signal: signal ?? null })
    return status
  }
}

/** As much of a Response as is read here: a real one takes longer to make than a schedule. */
function responseTo({ status, redirectedTo }: Answer): Response {
  const redirected = redirectedTo !== undefined
  const headers = new Headers()
  return { status, ok: status < 300, headers, redirected, url: redirectedTo ?? '', body: null } as Response
}

function axiosClient(provider: TokenProvider, send: Send): Client {
  const adapter = async (config: InternalAxiosRequestConfig) => {
    const authorization = config.headers.get('Authorization')?.toString()
    const { status } = await send({
      url: config.url ?? '',
      authorization,
      signal: config.signal as AbortSignal | undefined,
    })
    return { status, statusText: '', headers: {}, data: '', config, request: {} }
  }
  const instance = axios.create({ adapter, validateStatus: () => true })
  attachAuth(instance, provider)
  return async (url, { signal, isStream }) => {
    const { status } = await instance.post(url, isStream ? Readable.from('x') : 'x', {
      ...(signal && { signal }),
    })
    return status
  }
}

function undiciClient(provider: TokenProvider, send: Send): Client {
  const dispatch: Dispatch = ({ origin, path, headers }, handler) => {
    const aborting = new AbortController()
    const controller: Controller = {
      aborted: false,
      paused: false,
      reason: undefined,
      abort: (reason) => aborting.abort(reason),
      pause: () => {},
      resume: () => {},
    }
    handler.onRequestStart(controller, null)
    const authorization = new Headers(headers as Record<string, string>).get('authorization') ?? undefined
    send({ url: `${origin}${path}`, authorization, signal: aborting.signal }).then(
      ({ status }) => {
        handler.onResponseStart?.(controller, status, {}, '')
        handler.onResponseEnd?.(controller, {})
      },
      (error: unknown) => handler.onResponseError?.(controller, error),
    )
    return true
  }
  const authDispatch = createAuthDispatch(provider)(dispatch)
  return (url, { signal, isStream }) =>
    new Promise((resolve, reject) => {
      const { origin, pathname: path } = new URL(url)
      let status = 0
      authDispatch(
        { origin, path, method: 'POST', headers: {}, body: isStream ? Readable.from('x') : 'x' },
        {
          onRequestStart: (controller) => {
            const abort = (): void => controller.abort(signal?.reason)
            if (signal?.aborted) abort()
            else signal?.addEventListener('abort', abort)
          },
          onResponseStart: (_, code) => {
            status = code
          },
          onResponseEnd: () => resolve(status),
          onResponseError: (_, error) => reject(error),
        },
      )
    })
}
