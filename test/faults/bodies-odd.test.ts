// Bodies of which this package sends other bytes than the client alone would, or of which a user may think it does.
import { describe, expect, it } from 'vitest'
import { CLIENTS, comparable, exactly, type Ground, ground, send } from './body-calls.ts'
import { oddlyNamedForm, smallForm } from './body-kinds.ts'
import { tell } from './told.ts'

type Kind = Parameters<typeof send>[1]

const GROUP = 'Sent again after a 401'

function of(body: () => unknown, headers: Record<string, string> = {}): Kind {
  return {
    axios: () => ({ data: body(), headers }),
    fetch: (url) => [url, { body: body() as never, headers }],
  }
}

/** The first of two equal sendings. */
function repeated({ server: { seen } }: Ground) {
  const [first, second, ...more] = seen
  if (first === undefined || second === undefined) throw new Error('It was not repeated')
  expect(more).toEqual([])
  expect(exactly(second)).toEqual(exactly(first))
  return first
}

describe('a form with a line break in a name', () => {
  it('has it written as the HTML standard says, where axios’ http adapter would leave it', async ({
    task,
  }) => {
    await using api = await ground()
    const status = await send(
      'axios http',
      of(() => oddlyNamedForm('\n')),
      api,
    )
    const { body } = repeated(api)
    expect(status).toBe(200)
    expect(String(body)).toContain('form-data; name="a %22name%22%0D%0Ain two lines"\r\n\r\n1\r\n--')
    const cell = `sent twice, the same ${body.length} bytes; ${status}`
    tell(task, {
      table: 'bodies',
      group: GROUP,
      row: 'FormData: quotes and LF in a name',
      column: 'axios http',
      cell,
    })
  })
})

describe("a form under the caller's own boundary", () => {
  const kind = of(smallForm, { 'content-type': 'multipart/form-data; boundary=The-Callers-Own-1' })

  it.for(['axios http', 'axios fetch'] as const)('is sent under one boundary: %s', async (client) => {
    await using api = await ground()
    expect(await send(client, kind, api)).toBe(200)
    const { type, body } = comparable(repeated(api))
    expect(type).toBe('multipart/form-data; boundary=BOUNDARY')
    expect(body).toContain('--BOUNDARY--')
  })

  it.for(['axios http', 'axios fetch'] as const)('is sent under that boundary: %s', async (client) => {
    await using api = await ground()
    await send(client, kind, { url: `${api.server.url}/bare` })
    const [bare] = api.server.seen.splice(0)
    await send(client, kind, api)
    const first = repeated(api)
    expect(bare?.headers['content-type']).toBe('multipart/form-data; boundary=The-Callers-Own-1')
    // In lower case, as the type of every Blob is.
    expect(first.headers['content-type']).toBe('multipart/form-data; boundary=the-callers-own-1')
    expect(String(first.body)).toContain('--the-callers-own-1--')
  })
})

describe('a view on shared memory', () => {
  it('is sent by fetch as the bytes that it shows', async ({ task }) => {
    const view = new Uint8Array(new SharedArrayBuffer(4), 1, 2)
    view.set([65, 66])
    await using api = await ground()
    const status = await send(
      'fetch',
      of(() => view),
      api,
    )
    const { body } = repeated(api)
    expect(status).toBe(200)
    expect(String(body)).toBe('AB')
    const cell = `sent twice, the same ${body.length} bytes; ${status}`
    tell(task, { table: 'bodies', group: GROUP, row: 'Uint8Array on shared memory', column: 'fetch', cell })
  })
})

describe('a body that a call was given and that is of no known kind', () => {
  it('is sent once: its text may be another one the next time', async () => {
    let asked = 0
    const body = {
      toString: () => {
        asked += 1
        return `text ${asked}`
      },
    }
    await using api = await ground()
    expect(
      await send(
        'fetch',
        of(() => body),
        api,
      ),
    ).toBe(401)
    expect(api.server.seen.map((seen) => String(seen.body))).toEqual(['text 1'])
    expect(api.endpoint.count).toBe(2)
  })
})

describe('a body that the client refuses', () => {
  it.for([
    ['axios http', of(() => new Blob(['a web stream']).stream())],
    ['axios http', of(() => 12)],
    [
      'axios fetch',
      { axios: () => ({ method: 'GET', data: 'a body' }), fetch: (url: string) => [url] } as Kind,
    ],
    [
      'fetch',
      { axios: () => ({}), fetch: (url: string) => [url, { method: 'GET', body: 'a body' }] } as Kind,
    ],
  ] as const)('is refused as ever, and nothing is sent: %s', async ([client, kind]) => {
    await using api = await ground()
    const outcome = (send_: Promise<unknown>) =>
      send_.then(
        (status) => `status ${status}`,
        (error: Error) => `${error.name}: ${error.message}`,
      )
    const bare = await outcome(send(client, kind, { url: `${api.server.url}/bare` }))
    expect(await outcome(send(client, kind, api))).toBe(bare)
    expect(bare).not.toBe('status 200')
    expect(api.server.seen).toEqual([])
    expect(CLIENTS).toContain(client)
  })
})
