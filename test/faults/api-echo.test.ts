// APIs that give the token back: it stands in the API's own words, and nowhere else (contract 6).
import type { ServerResponse } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { inspect } from 'node:util'
import axios from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { scripted } from '../attach/calls.ts'
import { findLeaks } from '../support/leaks.ts'
import { outcomes, secrets } from '../support/recorded.ts'
import { type Client, onEach, rigAt, TABLE } from './api-rig.ts'
import { tell } from './told.ts'

type Echo = (authorization: string, response: ServerResponse, path: string) => void

const ROWS: [row: string, echo: Echo, expected: readonly [string, string, string]][] = [
  [
    'in the body',
    (token, response) => response.end(JSON.stringify({ got: token })),
    ['in the body', 'in the body', 'in the body'],
  ],
  [
    'in a header',
    (token, response) => response.writeHead(200, { 'x-got': token }).end('{}'),
    ['in the headers', 'in the headers', 'in the headers'],
  ],
  [
    'in the status text of a 500',
    (token, response) => response.writeHead(500, token).end('{}'),
    ['in the status text', 'in the status text', 'in the status text'],
  ],
  [
    'in the status text, a header and the body of a 401',
    (token, response) => response.writeHead(401, token, { 'x-got': token }).end(`"${token}"`),
    Array(3).fill('in the body, the headers, the status text') as unknown as [string, string, string],
  ],
  [
    'in the location of a redirect that is followed',
    (token, response, path) =>
      path.includes('token')
        ? response.end('{}')
        : response.writeHead(302, { location: `/merchant/moved?token=${encodeURIComponent(token)}` }).end(),
    ['nowhere', 'nowhere', 'in the URL'],
  ],
  [
    'in the location of a redirect that is followed to a 500',
    (token, response, path) =>
      path.includes('token')
        ? response.writeHead(500).end('{}')
        : response.writeHead(302, { location: `/merchant/moved?token=${encodeURIComponent(token)}` }).end(),
    ['nowhere', 'nowhere', 'in the URL'],
  ],
  [
    'in the location of a 201',
    (token, response) => response.writeHead(201, { location: `/merchant/moved?token=${token}` }).end(),
    ['in the headers', 'in the headers', 'in the headers'],
  ],
]

const GROUP = 'the API gives the token back: where it then stands'
const AT = { 'axios http': 0, 'axios fetch': 1, fetch: 2 } as const

describe('an API that gives the token back', () => {
  it.for(onEach(ROWS))(
    'to %s, %s: nothing else shows it',
    async ([client, row, echo, expected], { task }) => {
      await using api = await scripted(({ headers, path }, response) =>
        echo(String(headers.authorization), response, path),
      )
      const { places, elsewhere } = await called(client, api.url)
      const cell = places.length === 0 ? 'nowhere' : `in ${places.join(', ')}`
      expect(cell).toBe(expected[AT[client]])
      expect(elsewhere).toEqual([])
      tell(task, { table: TABLE, group: GROUP, row, column: client, cell })
    },
  )

  it.for(onEach<[string]>([['in an answer that is no HTTP']]))(
    'to %s, %s: the cause of the error has those bytes, and nothing else',
    async ([client, row], { task }) => {
      await using api = await brokenEcho()
      const { places, elsewhere } = await called(client, api.url)
      const cell = `in ${places.join(', ')}`
      expect(cell).toBe("in the cause's bytes")
      expect(elsewhere).toEqual([])
      tell(task, { table: TABLE, group: GROUP, row, column: client, cell })
    },
  )
})

interface Found {
  /** The parts of the API's answer that hold a token. */
  readonly places: readonly string[]
  /** Where a token stands in all that the caller gets but for those parts. */
  readonly elsewhere: readonly string[]
}

async function called(client: Client, url: string): Promise<Found> {
  const { provider } = rigAt(url)
  if (client === 'fetch') return calledByFetch(createAuthFetch(provider), url)
  const instance = axios.create({ baseURL: url, adapter: client === 'axios http' ? 'http' : 'fetch' })
  attachAuth(instance, provider)
  const outcome: unknown = await instance.get('/merchant/orders').catch((error: unknown) => error)
  const error = axios.isAxiosError(outcome) ? outcome : undefined
  const answer = (error === undefined ? outcome : error.response) as Record<string, unknown> | undefined
  const places = [
    ...(hasToken(answer?.['data']) ? ['the body'] : []),
    ...(hasToken(answer?.['headers']) ? ['the headers'] : []),
    ...(hasToken(answer?.['statusText']) ? ['the status text'] : []),
    ...causeOf(error),
  ]
  if (answer !== undefined) Object.assign(answer, { data: '', headers: {}, statusText: '' })
  return {
    places,
    elsewhere: [outcome, answer, error?.config, error?.toJSON(), answer?.['config']].flatMap(leaks),
  }
}

async function calledByFetch(authFetch: typeof fetch, url: string): Promise<Found> {
  try {
    const answer = await authFetch(`${url}/merchant/orders`, { redirect: 'follow' })
    outcomes.splice(0, outcomes.length, ...outcomes.filter((outcome) => outcome !== answer))
    const { headers, statusText, url: sent } = answer
    const places = [
      ...(hasToken(await answer.text()) ? ['the body'] : []),
      ...(hasToken(inspect(headers)) ? ['the headers'] : []),
      ...(hasToken(statusText) ? ['the status text'] : []),
      ...(hasToken(sent) ? ['the URL'] : []),
    ]
    return { places, elsewhere: [] }
  } catch (error) {
    return { places: causeOf(error as Error), elsewhere: leaks(error) }
  }
}

/** Node's parsers put the bytes that they could not read into their error. It is taken off here. */
function causeOf(error: Error | undefined): string[] {
  const { rawPacket, data } = (error?.cause ?? {}) as { rawPacket?: Buffer; data?: string }
  if (!hasToken(rawPacket?.toString('latin1') ?? data)) return []
  Object.assign(error?.cause as object, { rawPacket: undefined, data: undefined })
  return ["the cause's bytes"]
}

function hasToken(value: unknown): boolean {
  return value !== undefined && leaks(value).length > 0
}

function leaks(value: unknown): string[] {
  return value === undefined ? [] : findLeaks(value, secrets)
}

/** A server whose answer breaks HTTP, with the token in it. */
async function brokenEcho(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((socket) => {
    let text = ''
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      text += chunk.toString()
      const authorization = /^authorization: .*$/im.exec(text)?.[0]
      if (text.includes('\r\n\r\n')) socket.end(`HTTP/1.1 200 OK\r\nno header ${authorization}\r\n\r\n`)
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  }
}
