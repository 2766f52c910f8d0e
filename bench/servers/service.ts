/** A token endpoint and an API on loopback, as plain as can be: what is measured is the client. */
import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Service } from '../contender.ts'

export interface ServiceOptions {
  /** Lifetime of a token in seconds. */
  readonly expiresIn?: number
  /** How long a token request takes (ms). The token is made in the middle of that. */
  readonly tokenLatencyMs?: number
}

/** What the service was asked for so far. */
export interface Counts {
  token: number
  api: number
  /** Calls to the API with no token, or with one that had expired. */
  refused: number
}

export interface RunningService {
  readonly service: Service
  readonly counts: Counts
  /** Keeps token requests waiting until the function that it returns is called. */
  hold(): () => void
  close(): Promise<void>
}

const AUDIENCE = 'https://api.test.example.com'

/** Starts one on a free port. */
export async function startService({
  expiresIn = 36_000,
  tokenLatencyMs = 0,
}: ServiceOptions = {}): Promise<RunningService> {
  const counts: Counts = { token: 0, api: 0, refused: 0 }
  const expiresAt = new Map<string, number>()
  let held: Promise<void> = Promise.resolve()

  const giveToken = async (response: ServerResponse): Promise<void> => {
    counts.token += 1
    await held
    if (tokenLatencyMs > 0) await delay(tokenLatencyMs / 2)
    const token = createToken(counts.token, expiresIn)
    expiresAt.set(`Bearer ${token}`, performance.now() + expiresIn * 1000)
    if (tokenLatencyMs > 0) await delay(tokenLatencyMs / 2)
    answer(response, 200, {
      access_token: token,
      expires_in: expiresIn,
      scope: 'merchant',
      token_type: 'Bearer',
    })
  }

  const giveOrders = (request: IncomingMessage, response: ServerResponse): void => {
    counts.api += 1
    const until = expiresAt.get(request.headers.authorization ?? '')
    const accepted = until !== undefined && performance.now() < until
    if (!accepted) counts.refused += 1
    answer(response, accepted ? 200 : 401, { orders: [] })
  }

  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (request.method !== 'POST') giveOrders(request, response)
      else giveToken(response).catch((error: unknown) => response.destroy(error as Error))
    })
  })
  server.keepAliveTimeout = 60_000
  await new Promise<void>((resolve) =>
    server.listen({ host: '127.0.0.1', port: 0, backlog: 4_096 }, () => resolve()),
  )
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    service: {
      authUrl: url,
      audience: AUDIENCE,
      clientId: 'client',
      clientSecret: 'client-secret-for-measurements',
      apiUrl: `${url}/merchant`,
    },
    counts,
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>()
      held = promise
      return resolve
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  const bytes = Buffer.from(JSON.stringify(body))
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': bytes.byteLength,
    ...(status === 401 ? { 'www-authenticate': 'Bearer error="invalid_token"' } : undefined),
  })
  response.end(bytes)
}

/** In the form of a signed JWT, of the usual length. Nobody checks the signature. */
function createToken(number: number, expiresIn: number): string {
  const now = Math.floor(Date.now() / 1000)
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = {
    iss: 'https://auth.test.example.com/',
    sub: 'client@clients',
    aud: AUDIENCE,
    iat: now,
    exp: now + expiresIn,
    scope: 'merchant',
    gty: 'client-credentials',
    jti: number,
  }
  return [
    part({ alg: 'RS256', typ: 'JWT', kid: 'key-1' }),
    part(claims),
    randomBytes(256).toString('base64url'),
  ].join('.')
}
