// APIs that echo the token: it appears in the API's own response, and nowhere else.
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:net'
import { inspect } from 'node:util'
import type { AxiosError, AxiosResponse } from 'axios'
import { describe, expect, it } from 'vitest'
import { listening, rejectionOf, scripted } from '../support/ground.ts'
import { findLeaks } from '../support/leaks.ts'
import { provided, token } from '../support/provided.ts'
import { outcomes } from '../support/recorded.ts'
import { AXIOS_FETCH, AXIOS_HTTP, type Driver, FETCH } from './drivers.ts'

const VALUE = 'the.one.token'

type Echo = (authorization: string, response: ServerResponse, path: string) => void

const redirect: Echo = (value, response) =>
  response.writeHead(302, { location: `/moved?token=${encodeURIComponent(value)}` }).end()

const ROWS: [row: string, echo: Echo, places: string, byFetch?: string][] = [
  ['in the body', (value, response) => response.end(JSON.stringify({ got: value })), 'the body'],
  ['in a header', (value, response) => response.writeHead(200, { 'x-got': value }).end('{}'), 'the headers'],
  [
    'in the status text of a 500',
    (value, response) => response.writeHead(500, value).end('{}'),
    'the status text',
  ],
  [
    'in the status text, a header and the body of a 401',
    (value, response) => response.writeHead(401, value, { 'x-got': value }).end(`"${value}"`),
    'the body, the headers, the status text',
  ],
  [
    'in the location of a redirect that is followed',
    (value, response, path) =>
      path.includes('token') ? response.end('{}') : redirect(value, response, path),
    'nowhere',
    'the URL',
  ],
]

const has = (value: unknown): boolean => inspect(value, { depth: 4 }).includes(VALUE)
const leaks = (value: unknown): string[] => findLeaks(value, [VALUE])

const clientFor = (driver: Driver, url: string) =>
  driver.create(provided({ current: token(VALUE), apiUrls: [url], renew: async () => undefined }))

/** The parts of the API's response that contain the token. Once they are emptied, nothing else may contain it. */
async function partsWithToken(driver: Driver, url: string): Promise<string> {
  const answer = await clientFor(driver, url)({ url })
  const own = answer.own as AxiosResponse & Response
  const places = {
    'the body': answer.text,
    'the headers': own.headers,
    'the status text': own.statusText,
    'the URL': own.url,
  }
  const found = Object.entries(places).flatMap(([place, value]) => (has(value) ? [place] : []))
  outcomes.length = 0 // the API's own response may contain the token
  if (driver !== FETCH) {
    Object.assign(own, { data: '', headers: {}, statusText: '' })
    expect([own, own.config].flatMap(leaks)).toEqual([])
  }
  return found.join(', ') || 'nowhere'
}

describe.for([AXIOS_HTTP, AXIOS_FETCH, FETCH])('an API that echoes the token to $name', (driver) => {
  it.for(ROWS)('%s: the token appears nowhere else', async ([, echo, places, byFetch = places]) => {
    await using api = await scripted(({ headers, path }, response) =>
      echo(String(headers.authorization), response, path),
    )
    const cell = await partsWithToken(driver, api.url)
    expect(cell).toBe(driver === FETCH ? byFetch : places)
  })

  it('in an invalid HTTP response: only the raw bytes in the cause of the error contain the token', async () => {
    const server = createServer((socket) => {
      let text = ''
      socket.on('error', () => {})
      socket.on('data', (chunk) => {
        text += chunk.toString()
        const authorization = /^authorization: .*$/im.exec(text)?.[0]
        if (text.includes('\r\n\r\n')) socket.end(`HTTP/1.1 200 OK\r\nno header ${authorization}\r\n\r\n`)
      })
    })
    await using api = await listening(server)
    const error = (await rejectionOf(clientFor(driver, api.url)({ url: api.url }))) as AxiosError
    // Node's parsers attach the bytes that they cannot parse to their error.
    const cause = error.cause as { rawPacket?: Buffer | undefined; data?: string | undefined }
    expect(cause.rawPacket?.toString('latin1') ?? cause.data).toContain(VALUE)
    Object.assign(cause, { rawPacket: undefined, data: undefined })
    expect(leaks(error)).toEqual([])
  })
})
