// Bodies that the caller changes while the call waits for a token or for its renewal.
import { describe, expect, it } from 'vitest'
import { granted } from '../token/harness.ts'
import { type Client, comparable, ground, send, soon } from './body-calls.ts'
import { tell } from './told.ts'

interface Changed {
  readonly row: string
  readonly make: () => unknown
  readonly change: (body: never) => void
}

const CHANGED = {
  buffer: {
    row: 'Buffer',
    make: () => Buffer.from('as it was'),
    change: (body: Buffer) => body.fill('x'),
  },
  view: {
    row: 'Uint8Array on a part',
    make: () => new Uint8Array(new Uint8Array([1, 2, 3, 4]).buffer, 1, 2),
    change: (body: Uint8Array) => body.fill(9),
  },
  memory: {
    row: 'ArrayBuffer',
    make: () => new Uint8Array([1, 2, 3, 4]).buffer,
    change: (body: ArrayBuffer) => new Uint8Array(body).fill(9),
  },
  transferred: {
    row: 'ArrayBuffer, handed to a worker',
    make: () => new Uint8Array([1, 2, 3, 4]).buffer,
    change: (body: ArrayBuffer) => structuredClone(body, { transfer: [body] }),
  },
  params: {
    row: 'URLSearchParams',
    make: () => new URLSearchParams({ sum: '1' }),
    change: (body: URLSearchParams) => body.set('sum', '2'),
  },
  form: {
    row: 'FormData',
    make: () => {
      const form = new FormData()
      form.append('sum', '1')
      return form
    },
    change: (body: FormData) => body.set('sum', '2'),
  },
  object: {
    row: 'object',
    make: () => ({ order: { sum: 1 } }),
    change: (body: { order: { sum: number } }) => {
      body.order.sum = 2
    },
  },
} satisfies Record<string, Changed>

const WAITS = ['the first token', 'the renewal'] as const

/** Sends a body, changes it in the wait, and gives what was sent without this package and with it. */
async function sendAndChange(
  client: Client,
  { make, change }: Changed,
  wait: (typeof WAITS)[number],
): Promise<{ status: number | undefined; bare: string; sent: string[] }> {
  const gate = Promise.withResolvers<void>()
  const held = () => gate.promise.then(() => granted()({}))
  await using api = await ground(wait === 'the first token' ? [held] : [granted(), held])
  const withBody = (body: unknown): Parameters<typeof send>[1] => ({
    axios: () => ({ data: body }),
    fetch: (url) => [url, { body: body as never }],
  })
  await send(client, withBody(make()), { url: `${api.server.url}/bare` })
  const body = make()
  const call = send(client, withBody(body), api)
  await soon(() => api.endpoint.count === (wait === 'the first token' ? 1 : 2))
  change(body as never)
  gate.resolve()
  const status = await call
  const [bare = '', ...sent] = api.server.seen.map((seen) => comparable(seen).body)
  return { status, bare, sent }
}

type Case = readonly [row: string, client: Client, wait: (typeof WAITS)[number], changed: Changed]

function cases(clients: readonly Client[], changed: readonly Changed[], waits = WAITS): Case[] {
  return changed.flatMap((one) =>
    waits.flatMap((wait) => clients.map((client): Case => [one.row, client, wait, one])),
  )
}

const { object, params, form, buffer, view, memory, transferred } = CHANGED
const AXIOS = ['axios http', 'axios fetch'] as const

describe('a body that the caller changes while the call waits', () => {
  it.for([
    ...cases(['fetch'], [buffer, view, memory, transferred, params, form]),
    ...cases(AXIOS, [object, params]),
    ...cases(AXIOS, [form]).filter(([, , wait]) => wait === 'the renewal'),
  ])(
    'is sent as it was at the time of the call, both times: %s by %s, for %s',
    async ([row, column, wait, changed], { task }) => {
      const { status, bare, sent } = await sendAndChange(column, changed, wait)
      expect(status).toBe(200)
      expect(sent).toEqual([bare, bare])
      const cell = `sent twice, ${sent.every((body) => body === bare) ? 'as at the call' : 'changed'}; ${status}`
      tell(task, { table: 'bodies', group: `Changed in the wait for ${wait}`, row, column, cell })
    },
  )

  it.for([
    ...cases(AXIOS, [buffer, view, memory, transferred]),
    ...cases(AXIOS, [form]).filter(([, , wait]) => wait === 'the first token'),
  ])(
    'is sent as it was at the time of the call, with axios too: %s by %s, for %s',
    async ([, client, wait, changed]) => {
      const { bare, sent } = await sendAndChange(client, changed, wait)
      expect(sent).toEqual([bare, bare])
    },
  )
})
