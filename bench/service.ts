/** The payment service on loopback, in a process of its own: a token endpoint and an API. The client under test shares no CPU time with it. */
import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Service } from './contenders/contender.ts'
import { stayOnCore } from './cores.ts'

interface ServiceOptions {
  /** Lifetime of a token in seconds. */
  readonly expiresIn?: number
  /** The core that it stays on. By default any. */
  readonly core?: number
}

export interface RunningService {
  readonly service: Service
  close(): Promise<void>
}

export const AUDIENCE = 'https://api.test.example.com'

export async function startService(options: ServiceOptions = {}): Promise<RunningService> {
  const child = fork(new URL(import.meta.url), [JSON.stringify(options)], {
    execArgv: ['--no-warnings'],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const [port] = await Promise.race([once(child, 'message'), exited])
  const url = `http://127.0.0.1:${port}`
  return {
    service: {
      authUrl: url,
      audience: AUDIENCE,
      clientId: 'client',
      clientSecret: 'client-secret-for-measurements',
      apiUrl: `${url}/merchant`,
    },
    async close() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

if (import.meta.main) {
  const { expiresIn = 36_000, core } = JSON.parse(process.argv[2] ?? '{}') as ServiceOptions
  if (core !== undefined) stayOnCore(core)
  const expiresAt = new Map<string, number>()
  let tokenRequests = 0

  const issueToken = (response: ServerResponse): void => {
    tokenRequests += 1
    const token = createToken(tokenRequests, expiresIn)
    expiresAt.set(`Bearer ${token}`, performance.now() + expiresIn * 1_000)
    const body = { access_token: token, expires_in: expiresIn, scope: 'merchant', token_type: 'Bearer' }
    // The client's event loop would not see the end of a kept connection while a measurement keeps it busy.
    answer(response, 200, { body, closes: true })
  }

  const listOrders = (request: IncomingMessage, response: ServerResponse): void => {
    const until = expiresAt.get(request.headers.authorization ?? '')
    const isValid = until !== undefined && performance.now() < until
    answer(response, isValid ? 200 : 401, { body: { orders: [] }, closes: false })
  }

  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (request.method !== 'POST') listOrders(request, response)
      else issueToken(response)
    })
  })
  server.keepAliveTimeout = 60_000
  server.listen({ host: '127.0.0.1', port: 0, backlog: 4_096 })
  await once(server, 'listening')
  process.send?.((server.address() as AddressInfo).port)
  process.on('disconnect', () => process.exit()) // the benchmark has ended
}

function answer(
  response: ServerResponse,
  status: number,
  { body, closes }: { body: unknown; closes: boolean },
): void {
  const bytes = Buffer.from(JSON.stringify(body))
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': bytes.byteLength,
    ...(status === 401 && { 'www-authenticate': 'Bearer error="invalid_token"' }),
    ...(closes && { connection: 'close' }),
  })
  response.end(bytes)
}

/**
 * A token in the form of a signed JWT. Its length matters: axios checks each character of a default header in every
 * call. Nobody checks the signature.
 */
export function createToken(number: number, expiresIn: number): string {
  const now = Math.floor(Date.now() / 1_000)
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = {
    iss: 'https://auth.test.example.com/',
    sub: 'client@clients',
    aud: AUDIENCE,
    iat: now,
    exp: now + expiresIn,
    scope: 'merchant',
    gty: 'client-credentials',
    permissions: [
      'orders',
      'refunds',
      'captures',
      'terminals',
      'customers',
      'products',
      'payouts',
      'reports',
    ].flatMap((what) => [`read:${what}`, `write:${what}`]),
    jti: number,
  }
  const signature = randomBytes(256).toString('base64url')
  return [part({ alg: 'RS256', typ: 'JWT', kid: 'key-1' }), part(claims), signature].join('.')
}
