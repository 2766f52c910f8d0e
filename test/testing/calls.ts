/** What the tests of the sandbox share: a sandbox that is closed after each test, and calls to it with fetch. */
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import type { Server } from 'node:net'
import { afterEach, beforeEach, expect, onTestFinished } from 'vitest'
import { type Sandbox, type SandboxEnvironment, startSandbox } from '../../src/testing/index.ts'
import { listening as listen } from '../attach/world.ts'

export { closedPort as freePort, until } from '../attach/world.ts'

/** What a token endpoint answered. */
export interface Granted {
  readonly access_token: string
  readonly expires_in: number
  readonly scope: string
  readonly token_type: string
}

/** What an API answered. */
export interface Echo {
  readonly api: string
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers: Record<string, string>
  readonly body: string
  readonly bodySha256: string
  readonly jti: string
}

/** A new sandbox for each test. */
export function useSandbox(): { readonly sandbox: Sandbox; readonly env: SandboxEnvironment } {
  const use = {} as { sandbox: Sandbox; env: SandboxEnvironment }
  beforeEach(async () => {
    use.sandbox = await startSandbox()
    use.env = use.sandbox.test
  })
  afterEach(() => use.sandbox.close())
  return use
}

/** A ConfigurationError, with one problem for this option. */
export function configurationError(
  option: unknown = expect.any(String),
  reason: unknown = expect.any(String),
) {
  return expect.objectContaining({
    code: 'ERR_CONFIGURATION',
    problems: [expect.objectContaining({ option, reason })],
  })
}

/** What a client needs to know about an environment. */
export type Client = Pick<SandboxEnvironment, 'clientId' | 'clientSecret' | 'environment'>

/** The four fields of a valid token request. */
export function goodFields({ clientId, clientSecret, environment }: Client): Record<string, string> {
  return {
    client_id: clientId,
    client_secret: clientSecret,
    audience: String(environment.audience),
    grant_type: 'client_credentials',
  }
}

/** Sends a token request that is valid except for what is passed. */
export function requestToken(
  env: Client,
  { fields = goodFields(env), ...init }: RequestInit & { readonly fields?: unknown } = {},
): Promise<Response> {
  return fetch(`${env.environment.authUrl}/oauth/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(fields),
    redirect: 'manual',
    ...init,
  })
}

/** Requests a new token. */
export async function freshToken(env: Client): Promise<string> {
  const response = await requestToken(env)
  return ((await response.json()) as Granted).access_token
}

/** Calls an API with a token. */
export function call(url: string, token: string | undefined, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers)
  if (token !== undefined) headers.set('authorization', `Bearer ${token}`)
  return fetch(url, { redirect: 'manual', ...init, headers })
}

/** Calls an API with a token by node:http, which fake timers do not affect; fetch uses the global timers. */
export async function callByNodeHttp(url: string, token: string | undefined): Promise<IncomingMessage> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const [response] = await once(get(url, { headers }), 'response')
  return response as IncomingMessage
}

/** The echo of an API. */
export async function echoOf(response: Response): Promise<Echo> {
  return (await response.json()) as Echo
}

/** Waits for turns of the event loop. */
export async function turn(times = 1): Promise<void> {
  for (let i = 0; i < times; i += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** Lets a server listen on 127.0.0.1 until the test is over. Returns its port. */
export async function listening(server: Server): Promise<number> {
  const listens = await listen(server)
  onTestFinished(() => listens[Symbol.asyncDispose]())
  return Number(new URL(listens.url).port)
}
