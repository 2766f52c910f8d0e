// Large bodies, limits and progress of an upload, and APIs that refuse before they have read the body.
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { AxiosError, type AxiosProgressEvent } from 'axios'
import { describe, expect, it, type TestContext } from 'vitest'
import { rejectionOf, type Scripted, type Seen } from '../attach/calls.ts'
import { findLeaks } from '../support/leaks.ts'
import { secrets } from '../support/recorded.ts'
import { axiosFor, CLIENTS, type Client, ground, send, soon } from './body-calls.ts'
import type { BodyKind } from './body-kinds.ts'
import { tell } from './told.ts'

const MIB = 1024 * 1024
const AXIOS = ['axios http', 'axios fetch'] as const
/** No two parts of it are alike, so that none can be missing, or come twice, unseen. */
const LARGE = Buffer.alloc(8 * MIB)
for (let at = 0; at < LARGE.length; at += 4) LARGE.writeUInt32LE(at, at)
const LARGE_TEXT = LARGE.toString('hex', 0, 4 * MIB)

type Kind = Pick<BodyKind, 'axios' | 'fetch'>
type Case = readonly [row: string, column: Client, kind: Kind]

function cases(row: string, make: () => unknown, clients: readonly Client[] = CLIENTS): Case[] {
  const kind: Kind = {
    axios: () => ({ data: make() }),
    fetch: (url) => [url, { body: make() as never, duplex: 'half' }],
  }
  return clients.map((client): Case => [row, client, kind])
}

function formOf(bytes: Uint8Array<ArrayBuffer>): FormData {
  const form = new FormData()
  form.append('file', new Blob([bytes]))
  return form
}

/** Chunks as a file would give them. */
function* chunks(): Generator<Buffer> {
  for (let at = 0; at < LARGE.length; at += 64 * 1024) yield LARGE.subarray(at, at + 64 * 1024)
}

const REQUEST: Kind = {
  axios: () => ({}),
  fetch: (url) => [new Request(url, { method: 'POST', body: new Blob([LARGE]).stream(), duplex: 'half' })],
}

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

describe('a body of 8 MiB', () => {
  it.for([
    ...cases('Buffer, 8 MiB', () => LARGE),
    ...cases('string, 8 MiB', () => LARGE_TEXT),
    ...cases('Blob, 8 MiB', () => new Blob([LARGE])),
    ...cases('FormData, 8 MiB', () => formOf(LARGE)),
  ])('is sent twice, whole: %s by %s', async ([row, column, kind], { task }) => {
    await using api = await ground()
    expect(await send(column, kind, api)).toBe(200)
    const [first, second, ...more] = api.server.seen
    expect(more).toEqual([])
    expect(first?.body.length).toBeGreaterThanOrEqual(8 * MIB)
    expect(digest(second?.body ?? Buffer.alloc(0))).toBe(digest(first?.body ?? Buffer.alloc(1)))
    if (!row.startsWith('string')) expect(first?.body.includes(LARGE)).toBe(true)
    tell(task, { table: 'bodies', group: 'Large', row, column, cell: 'sent twice, the same bytes; 200' })
  })

  it.for([
    ...cases('Node stream, 8 MiB', () => Readable.from(chunks())),
    ...cases('web stream, 8 MiB', () => new Blob([LARGE]).stream(), ['axios fetch', 'fetch']),
  ])('is sent once, whole: %s by %s', async ([row, column, kind], { task }) => {
    await using api = await ground()
    expect(await send(column, kind, api)).toBe(401)
    expect(api.server.seen.map(({ body }) => digest(body))).toEqual([digest(LARGE)])
    expect(api.endpoint.count).toBe(2)
    tell(task, { table: 'bodies', group: 'Large', row, column, cell: 'sent once, all bytes; 401' })
  })

  it('of a Request is sent twice, whole', async ({ task }) => {
    await using api = await ground()
    expect(await send('fetch', REQUEST, api)).toBe(200)
    const whole = digest(LARGE)
    expect(api.server.seen.map(({ body }) => digest(body))).toEqual([whole, whole])
    const row = 'Request with a stream, 8 MiB'
    tell(task, {
      table: 'bodies',
      group: 'Large',
      row,
      column: 'fetch',
      cell: 'sent twice, the same bytes; 200',
    })
  })
})

/** An API that refuses the first token before it reads any of the body. */
async function refusingUnread(): Promise<Scripted & { readonly refused: number }> {
  const seen: Seen[] = []
  let first: string | undefined
  let refused = 0
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = '', url: path = '', headers } = request
    first ??= headers.authorization
    if (headers.authorization === first) {
      refused += 1
      request.on('error', () => {}) // fetch breaks off such an upload
      response.writeHead(401, { 'content-length': '0' }).end(() => request.resume())
      return
    }
    seen.push({ method, path, headers, body: await buffer(request) })
    response.end()
  }
  const server = createServer((request, response) => void answer(request, response).catch(() => {}))
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    get refused() {
      return refused
    },
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

describe('a 401 that comes before the API has read the body', () => {
  it.for<Case>([
    ...cases('Buffer, 401 before it is read', () => LARGE),
    ...cases('Blob, 401 before it is read', () => new Blob([LARGE])),
    ['Request with a stream, 401 before it is read', 'fetch', REQUEST],
  ])('has it sent again, whole: %s by %s', async ([row, column, kind], { task }) => {
    const server = await refusingUnread()
    await using api = await ground([], server)
    expect(await send(column, kind, api)).toBe(200)
    expect(server.refused).toBe(1)
    expect(server.seen.map(({ body }) => digest(body))).toEqual([digest(LARGE)])
    expect(api.endpoint.count).toBe(2)
    tell(task, { table: 'bodies', group: 'Large', row, column, cell: 'sent again, all bytes; 200' })
  })

  it.for(CLIENTS)('has a stream that goes on not sent again: %s', async (column, { task }) => {
    const server = await refusingUnread()
    await using api = await ground([], server)
    const refusal = Promise.withResolvers<void>()
    const endless = Readable.from(
      (async function* () {
        yield Buffer.alloc(1024)
        await refusal.promise
        yield Buffer.alloc(1024)
      })(),
    )
    const kind = cases('', () => endless)[0]?.[2]
    if (kind === undefined) throw new Error('There is no such case')
    expect(await send(column, kind, api)).toBe(401)
    refusal.resolve()
    expect(server.refused).toBe(1)
    expect(server.seen).toEqual([])
    expect(api.endpoint.count).toBe(2)
    const row = 'Node stream, 401 before its end'
    tell(task, { table: 'bodies', group: 'Large', row, column, cell: 'sent once; 401' })
  })
})

const OVER_THE_LIMIT = [
  ['Blob', () => new Blob([Buffer.alloc(11)])],
  ['FormData', () => formOf(Buffer.alloc(11))],
  ['Node stream', () => Readable.from([Buffer.alloc(11)])],
] as const

async function expectRefusal(name: string, column: Client, make: () => unknown, task: TestContext['task']) {
  await using api = await ground()
  const error = await rejectionOf(axiosFor(column, api.tokens).post(api.url, make(), { maxBodyLength: 10 }))
  expect(error).toBeInstanceOf(AxiosError)
  expect(error).toMatchObject({
    code: 'ERR_BAD_REQUEST',
    message: 'Request body larger than maxBodyLength limit',
    config: { maxBodyLength: 10 },
  })
  expect(api.endpoint.count).toBe(1)
  // A stream is counted while it is sent: the API sees a request that breaks off.
  expect(api.server.seen.filter(({ body }) => body.length > 0)).toEqual([])
  const row = `${name} beyond maxBodyLength`
  tell(task, {
    table: 'bodies',
    group: 'Large',
    row,
    column,
    cell: `AxiosError ${(error as AxiosError).code}`,
  })
  return error
}

describe('an upload with axios', () => {
  it.for(
    AXIOS.flatMap((client) =>
      [
        ['Buffer, with onUploadProgress', () => LARGE.subarray(0, MIB)] as const,
        ['FormData, with onUploadProgress', () => formOf(LARGE.subarray(0, MIB))] as const,
      ].map(([row, make]) => [row, client, make] as const),
    ),
  )('tells of its progress both times: %s by %s', async ([row, column, make], { task }) => {
    await using api = await ground()
    const told: AxiosProgressEvent[] = []
    const onUploadProgress = (event: AxiosProgressEvent): void => void told.push(event)
    await axiosFor(column, api.tokens).post(api.url, make(), { onUploadProgress })
    const [first, second] = api.server.seen.map(({ body }) => body.length)
    expect(second).toBe(first)
    const ends = () => told.filter(({ loaded }) => loaded === first)
    await soon(() => ends().length >= 2)
    expect(ends().map(({ total }) => total)).toEqual([first, first])
    tell(task, {
      table: 'bodies',
      group: 'Large',
      row,
      column,
      cell: `sent twice; ${ends().length} times told of its end; 200`,
    })
  })

  it.for([
    ...AXIOS.map((client) => ['Buffer', client, () => Buffer.alloc(11)] as const),
    ...OVER_THE_LIMIT.map(([name, make]) => [name, 'axios fetch', make] as const),
  ])('beyond maxBodyLength is refused by axios as ever: %s by %s', async ([name, client, make], { task }) => {
    await expectRefusal(name, client, make, task)
  })

  it.for(OVER_THE_LIMIT)(
    'beyond maxBodyLength is refused without a secret in the error: %s by axios http',
    async ([name, make], { task }) => {
      const error = await expectRefusal(name, 'axios http', make, task)
      expect(findLeaks(error, secrets)).toEqual([])
    },
  )

  it.for(AXIOS)('within maxBodyLength is sent twice: %s', async (client) => {
    await using api = await ground()
    await axiosFor(client, api.tokens).post(api.url, Buffer.alloc(10), { maxBodyLength: 10 })
    expect(api.server.seen.map(({ body }) => body.length)).toEqual([10, 10])
  })
})
