// The body of a 401 while its call waits for another token: its connection is free, and the caller may still get it.
import { Agent as HttpAgent } from 'node:http'
import { text } from 'node:stream/consumers'
import axios from 'axios'
import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, Request, Response, request, fetch as undiciFetch } from 'undici'
import { describe, expect, it, onTestFinished } from 'vitest'
import { token } from '../../support/provided.ts'
import { scripted, until } from '../world.ts'

const MIB = 1024 * 1024

interface Rejected {
  /** The size of each 401 of the API. */
  readonly bytes: number
  readonly isAnnounced: boolean
  /** How many tokens the token endpoint issues before it refuses. */
  readonly tokens?: number
}

/** A token endpoint and an API on one origin. */
async function service({ bytes, isAnnounced, tokens = Infinity }: Rejected) {
  let [issued, valid] = [0, '']
  const server = await scripted(({ path, headers }, response) => {
    if (path === '/oauth/token') {
      if (issued === tokens) return response.writeHead(400).end()
      issued += 1
      valid = token(`token.${issued}`).value
      return response.end(JSON.stringify({ access_token: valid, token_type: 'Bearer', expires_in: 3600 }))
    }
    if (headers.authorization === `Bearer ${valid}`) return response.end('fine')
    response.writeHead(401, isAnnounced ? { 'content-length': bytes } : {})
    response.write(Buffer.alloc(bytes - 1, 'x'))
    return response.end('!')
  })
  onTestFinished(() => server[Symbol.asyncDispose]())
  return {
    url: server.url,
    revoke: () => {
      valid = ''
    },
  }
}

function providerWith(url: string, limited: typeof fetch) {
  return createTokenProvider({
    environment: { authUrl: url, audience: 'a', apiUrls: [url] },
    clientId: 'client',
    clientSecret: 'a-long-secret',
    timeoutMs: 2_000,
    fetch: limited,
  })
}

/** axios' http adapter with one connection, which the token requests share. */
function httpClient(url: string) {
  const httpAgent = new HttpAgent({ keepAlive: true, maxTotalSockets: 1 })
  onTestFinished(() => httpAgent.destroy())
  const config = { adapter: 'http', httpAgent, validateStatus: null } as const
  const limited = async (url: string, { method, headers, body }: RequestInit) => {
    const request = { url, method, headers, data: body, responseType: 'arraybuffer' }
    const { data, status } = await axios.request({ ...config, ...request } as object)
    return new Response(data, { status })
  }
  const tokens = providerWith(url, limited as never)
  const api = axios.create(config)
  attachAuth(api, tokens)
  const call = async () => {
    const { status, data } = await api.post(`${url}/orders`, {}, { responseType: 'stream' })
    return { status, text: await text(data) }
  }
  return { tokens, call }
}

/** The other clients, each with one connection, which the token requests share. */
function undiciClients(url: string) {
  const agent = new Agent({ connections: 1 })
  onTestFinished(() => agent.destroy())
  const limited = ((input: never, init: object) =>
    undiciFetch(input, { ...init, dispatcher: agent })) as unknown as typeof fetch
  const tokens = providerWith(url, limited)
  const api = `${url}/orders`
  const axiosApi = axios.create({ adapter: 'fetch', env: { fetch: limited, Request, Response } as never })
  attachAuth(axiosApi, tokens)
  const validateStatus = () => true
  const authFetch = createAuthFetch(tokens, { fetch: limited })
  const dispatcher = agent.compose(createAuthDispatch(tokens))
  const send = {
    fetch: async () => {
      const response = await authFetch(api, { method: 'POST', body: '{}' })
      return { status: response.status, text: await response.text() }
    },
    undici: async () => {
      const { statusCode, body } = await request(api, { dispatcher, method: 'POST', body: '{}' })
      return { status: statusCode, text: await body.text() }
    },
    axios: async () => {
      const { status, data } = await axiosApi.post(api, {}, { responseType: 'text', validateStatus })
      return { status, text: data }
    },
    "a stream of axios' fetch adapter": async () => {
      const { status, data } = await axiosApi.post(api, {}, { responseType: 'stream', validateStatus })
      return { status, text: await text(data) }
    },
  }
  return { tokens, send }
}

type Client = "a stream of axios' http adapter" | keyof ReturnType<typeof undiciClients>['send']

function clientOf(name: Client, url: string) {
  if (name === "a stream of axios' http adapter") return httpClient(url)
  const { tokens, send } = undiciClients(url)
  return { tokens, call: send[name] }
}

/** Makes a call with a token that was revoked. */
async function afterRevocation(client: Client, rejected: Rejected) {
  const { url, revoke } = await service(rejected)
  const { tokens, call } = clientOf(client, url)
  await call()
  revoke()
  return { ...(await call()), tokens, call }
}

describe.each<Client>([
  'fetch',
  'undici',
  'axios',
  "a stream of axios' fetch adapter",
  "a stream of axios' http adapter",
])('%s', (client) => {
  it.each([
    { bytes: 100_000, isAnnounced: true },
    { bytes: MIB, isAnnounced: true },
    { bytes: MIB, isAnnounced: false },
  ])('is repeated after a 401: %j', async (rejected) => {
    expect(await afterRevocation(client, rejected)).toMatchObject({ status: 200, text: 'fine' })
  })

  it('returns the 401 whole if nothing is renewed', async () => {
    const { status, text } = await afterRevocation(client, { bytes: 100_000, isAnnounced: false, tokens: 1 })
    expect([status, text.length, text.at(-1)]).toEqual([401, 100_000, '!'])
  })
})

describe.each<Client>([
  'fetch',
  'undici',
  "a stream of axios' fetch adapter",
  "a stream of axios' http adapter",
])('%s', (client) => {
  it.each([true, false])(
    'returns a 401 of more than 1 MiB at once, announced: %s, while the renewal runs',
    async (isAnnounced) => {
      const rejected = { bytes: MIB + 1, isAnnounced }
      const { status, text, tokens, call } = await afterRevocation(client, rejected)
      expect([status, text.length, text.at(-1)]).toEqual([401, MIB + 1, '!'])
      await until(() => tokens.currentToken()?.value === 'token.2')
      expect((await call()).status).toBe(200)
    },
  )
})
