/** What the tests of echoes share: a secret, the three ways to call, a listener that logs everything, and the search. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { inspect } from 'node:util'
import axios, { AxiosError, type InternalAxiosRequestConfig } from 'axios'
import { createAuthFetch, type TokenProvider, type TokenProviderOptions } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { afterEach, beforeEach, expect, type TestContext } from 'vitest'
import { findLeaks } from '../support/leaks.ts'
import { MERCHANT_URL, type Rig, rejection, rig } from '../token/harness.ts'
import { record } from './cells.ts'

/** Of characters that HTML, JSON, URLs, forms and shells all write in other ways. */
export const SECRET = `hush+"hush"/it's<me>&you=`
export const CLIENT_ID = 'client-1'

export const CLIENTS = ['provider.getToken()', 'axios api.get()', 'authFetch'] as const
export type Client = (typeof CLIENTS)[number]

/** Each row with each way to call. */
export function forEachClient<T extends readonly unknown[]>(rows: readonly T[]): [Client, ...T][] {
  return rows.flatMap((row) => CLIENTS.map((client): [Client, ...T] => [client, ...row]))
}

/** A call in one of the three ways, to an API that answers 401. */
export function call(client: Client, provider: TokenProvider, url: string = MERCHANT_URL): Promise<unknown> {
  if (client === 'provider.getToken()') return provider.getToken()
  if (client === 'authFetch') {
    const rejecting = () => Promise.resolve(new Response('', { status: 401 }))
    return createAuthFetch(provider, { fetch: rejecting })(url)
  }
  const rejecting = (config: InternalAxiosRequestConfig): Promise<never> => {
    const response = { status: 401, statusText: '', headers: {}, config, data: '' }
    return Promise.reject(new AxiosError('401', AxiosError.ERR_BAD_REQUEST, config, {}, response))
  }
  const api = axios.create({ adapter: rejecting })
  attachAuth(api, provider)
  return api.get(url)
}

/** What a listener that logs everything has logged, of onEvent and of the diagnostics channel. */
export class Logger {
  lines: string[] = []
  readonly log = (event: unknown): void => {
    this.lines.push(inspect(event, { showHidden: true, depth: Infinity, getters: true }))
    this.lines.push(JSON.stringify(event), Object.values(event as object).join())
  }
}

/** A logger that listens on the diagnostics channel during each test. */
export function useLogger(): Logger {
  const logger = new Logger()
  beforeEach(() => {
    logger.lines = []
    subscribe('merchant-auth', logger.log)
  })
  afterEach(() => void unsubscribe('merchant-auth', logger.log))
  return logger
}

/** A provider with the secret, and a listener that logs everything and then throws it. */
export function echoRig(logger: Logger, options: Partial<TokenProviderOptions> = {}): Rig {
  const onEvent = (event: unknown): never => {
    logger.log(event)
    throw event
  }
  return rig([], { clientId: CLIENT_ID, clientSecret: SECRET, retries: 0, onEvent, ...options })
}

/** Where any of the texts is found in what a caller has got, or a listener logged. */
export function leaksIn(logger: Logger, made: Rig, got: unknown, texts: readonly string[]): string[] {
  const all = [got, made.provider, logger.lines, logger.lines.join('\n')]
  return all.flatMap((value) => findLeaks(value, texts))
}

/** Lets the token request of a call fail, makes another call within the cooldown, and searches both errors. */
export async function failAndSearch(
  task: TestContext['task'],
  logger: Logger,
  {
    client,
    made,
    error,
    texts,
    group,
    row,
  }: {
    readonly client: Client
    readonly made: Rig
    /** The name of the error that the caller should get. */
    readonly error: string
    /** What may not be found, besides the secret in its usual spellings. */
    readonly texts: readonly string[]
    readonly group: string
    readonly row: string
  },
): Promise<void> {
  const first = await rejection(call(client, made.provider))
  const second = await rejection(call(client, made.provider))
  expect(logger.lines.join(), 'the events').toContain('token-request-failed')
  for (const got of [first, second]) {
    expect(leaksIn(logger, made, got, [SECRET, ...texts])).toEqual([])
    expect(got.name).toBe(error)
  }
  record(task, { table: 'echoes', group, row, column: client, cell: `${first.name}, nothing leaks` })
}
