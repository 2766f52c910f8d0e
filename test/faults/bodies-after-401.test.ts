// Bodies of calls that are answered 401: which are sent again, and with which bytes (contract 5.5).
import { describe, expect, it, type TestContext } from 'vitest'
import { type Client, comparable, exactly, ground, send } from './body-calls.ts'
import { type BodyKind, METHODS, ONCE, REPEATED } from './body-kinds.ts'
import { tell } from './told.ts'

function cases(kinds: readonly BodyKind[]): (readonly [string, Client, BodyKind])[] {
  return kinds.flatMap((kind) => kind.clients.map((client) => [kind.row, client, kind] as const))
}

function cellOf(
  { task }: TestContext,
  { group, row, column, cell }: { group: string; row: string; column: Client; cell: string },
) {
  tell(task, { table: 'bodies', group, row, column, cell })
}

async function expectRepeat(client: Client, kind: BodyKind, context: TestContext, group: string) {
  await using api = await ground()
  await send(client, kind, { url: `${api.server.url}/bare` })
  const status = await send(client, kind, { url: api.url, tokens: api.tokens })
  const [bare, first, second, ...more] = api.server.seen
  if (bare === undefined || first === undefined || second === undefined)
    throw new Error('It was not repeated')
  expect(more).toEqual([])
  expect(status).toBe(200)
  expect(exactly(second)).toEqual(exactly(first))
  expect(second.headers.authorization).not.toBe(first.headers.authorization)
  const { type, ...asBare } = comparable(bare)
  expect(comparable(first)).toMatchObject(asBare)
  // axios' fetch adapter gives a form the type of a text, with which no server can read it.
  const isForm = asBare.body.startsWith('--BOUNDARY')
  expect(comparable(first).type).toBe(isForm ? 'multipart/form-data; boundary=BOUNDARY' : type)
  if (kind.row !== 'HEAD') expect(first.headers['idempotency-key']).toBe('k-1')
  expect(api.endpoint.count).toBe(2)
  cellOf(context, {
    group,
    row: kind.row,
    column: client,
    cell: `sent twice, the same ${first.body.length} bytes; ${status}`,
  })
}

describe('a body that can be sent again', () => {
  it.for(cases(REPEATED))(
    'is sent twice, as the client alone would send it: %s by %s',
    async (one, context) => {
      await expectRepeat(one[1], one[2], context, 'Sent again after a 401')
    },
  )

  it.for(cases(METHODS))('is sent twice with the same method: %s by %s', async (one, context) => {
    await expectRepeat(one[1], one[2], context, 'Methods')
  })
})

describe('a body that is used up by the first sending', () => {
  it.for(cases(ONCE))(
    'is sent once, whole; the caller gets the 401, and its next call the new token: %s by %s',
    async ([row, client, kind], context) => {
      await using api = await ground()
      await send(client, kind, { url: `${api.server.url}/bare` })
      const status = await send(client, kind, { url: api.url, tokens: api.tokens })
      const [bare, first, ...more] = api.server.seen
      if (bare === undefined || first === undefined) throw new Error('It was not sent')
      expect(more).toEqual([])
      expect(status).toBe(401)
      expect(comparable(first)).toEqual(comparable(bare))
      expect(first.body.length).toBeGreaterThan(0)
      expect(api.endpoint.count).toBe(2)
      const next = await send(client, kind, { url: api.url, tokens: api.tokens })
      expect(next).toBe(200)
      expect(comparable(api.server.seen[2] ?? first).body).toBe(comparable(bare).body)
      expect(api.endpoint.count).toBe(2)
      cellOf(context, {
        group: 'Sent once: streams',
        row,
        column: client,
        cell: `sent once, all ${first.body.length} bytes; ${status}, next call ${next}`,
      })
    },
  )
})
