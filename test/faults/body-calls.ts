/** What the tests of bodies share: an API that refuses the first token, and calls with and without this package. */
import type { ServerResponse } from 'node:http'
import axios, { type AxiosInstance, type CreateAxiosDefaults } from 'axios'
import { type AuthEvent, createAuthFetch, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { type Scripted, type Seen, scripted, statusOf } from '../attach/calls.ts'
import { type Answer, ENVIRONMENT, rig, type ScriptedEndpoint } from '../token/harness.ts'
import type { BodyKind } from './body-kinds.ts'

export const CLIENTS = ['axios http', 'axios fetch', 'fetch'] as const
export type Client = (typeof CLIENTS)[number]

/** What a server that was called needs to answer with. */
type Respond = (seen: Seen, response: ServerResponse) => void

export interface Ground extends AsyncDisposable {
  readonly server: Scripted
  readonly tokens: TokenProvider
  readonly endpoint: ScriptedEndpoint
  readonly events: readonly AuthEvent[]
  readonly url: string
}

/** An API that answers 401 to the first token that it sees and 200 to all others, and a provider for it. */
export async function ground(answers: Answer[] = [], made?: Scripted): Promise<Ground> {
  const server = made ?? (await scripted(refusingFirstToken()))
  const { provider, endpoint, events } = rig(answers, {
    environment: { ...ENVIRONMENT, apiUrls: [server.url] },
  })
  return {
    server,
    tokens: provider,
    endpoint,
    events,
    url: `${server.url}/orders`,
    [Symbol.asyncDispose]: async () => {
      await provider.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

function refusingFirstToken(): Respond {
  let refused: string | undefined
  return ({ headers: { authorization } }, response) => {
    refused ??= authorization
    response.writeHead(authorization !== undefined && authorization === refused ? 401 : 200)
    response.end()
  }
}

/** An axios instance with one of the two adapters; with the token attached where there is a provider. */
export function axiosFor(
  client: Client,
  tokens: TokenProvider | undefined,
  config?: CreateAxiosDefaults,
): AxiosInstance {
  const instance = axios.create({
    adapter: client === 'axios http' ? 'http' : 'fetch',
    proxy: false,
    ...config,
  })
  if (tokens !== undefined) attachAuth(instance, tokens)
  return instance
}

/** Sends a body, and gives the status that the caller gets. */
export async function send(
  client: Client,
  kind: Pick<BodyKind, 'axios' | 'fetch'>,
  { url, tokens }: { url: string; tokens?: TokenProvider },
): Promise<number | undefined> {
  if (client === 'fetch') {
    const [input, init] = kind.fetch(url)
    const call = tokens === undefined ? fetch : createAuthFetch(tokens)
    if (typeof input === 'object') return (await call(input, init)).status
    const headers = { 'idempotency-key': 'k-1', ...(init?.headers as Record<string, string>) }
    return (await call(input, { method: 'POST', ...init, headers })).status
  }
  const config = kind.axios()
  const headers = { 'idempotency-key': 'k-1', ...config.headers }
  return await statusOf(
    axiosFor(client, tokens).request({ method: 'POST', maxRedirects: 5, url, ...config, headers }),
  )
}

/** A request as it can be compared: without the token, and with its boundary under one name. */
export function comparable({ method, headers, body }: Seen) {
  const { authorization, 'content-length': length, 'content-type': type = '', ...others } = headers
  const text = body.toString('latin1')
  // The type does not always tell: axios' fetch adapter by itself sends a form under the type of a text.
  const boundary = /boundary=(.+)$/.exec(type)?.[1] ?? /^--(\S+?)(?:--)?\r\n/.exec(text)?.[1]
  const sameName = (value: string): string =>
    boundary === undefined ? value : value.replaceAll(boundary, 'BOUNDARY')
  return {
    method,
    body: sameName(text),
    type: sameName(type),
    /** Whether the length was said, and rightly. */
    length: length === undefined ? 'not said' : Number(length) === body.length,
    headers: others,
  }
}

/** The same with nothing but the token left out: what has to be equal in the two sendings of a call. */
export function exactly({ method, path, headers, body }: Seen) {
  const { authorization, ...others } = headers
  return { method, path, headers: others, body: body.toString('latin1') }
}

/** Waits for something that other promises and sockets bring about; gives up after some seconds. */
export async function soon(condition: () => boolean): Promise<void> {
  for (let turn = 0; turn < 1_000_000 && !condition(); turn += 1)
    await new Promise((resolve) => setImmediate(resolve))
  if (!condition()) throw new Error('It did not happen')
}
