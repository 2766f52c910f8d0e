// Faults of an API: callers of every client get the same outcome as with a constant header.
import type { Fault } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { until, useGround } from '../../support/ground.ts'
import { CLIENTS } from '../conform.ts'
import { AXIOS_FETCH, AXIOS_HTTP, type Client, type Driver, FETCH } from '../drivers.ts'

const ground = useGround()

interface Situation {
  readonly fault: Fault
  /** Whether the caller aborts once the API has the request. */
  readonly aborts?: boolean
  readonly options?: object
}

/** The parts of a response or an error that do not differ between two calls. */
async function outcomeOf(client: Client, { fault, aborts, options = {} }: Situation, headers = {}) {
  ground.env.clearFaults()
  ground.env.fail('merchant', fault)
  const before = ground.env.counts.merchant
  const caller = new AbortController()
  const { signal } = caller
  const call = client({
    url: ground.env.merchantUrl,
    method: 'POST',
    body: '{"amount":100}',
    headers: { 'content-type': 'application/json', ...headers },
    signal,
    options,
  })
  if (aborts) until(() => ground.env.counts.merchant > before).then(() => caller.abort())
  try {
    const { status, text, header } = await call
    const names = ['content-type', 'content-length', 'content-encoding', 'retry-after']
    // The sandbox echoes the headers in the order in which they arrived.
    return { status, body: text.startsWith('{') ? JSON.parse(text) : text, headers: names.map(header) }
  } catch (error) {
    const { name, message, cause, ...rest } = error as Error & Record<string, unknown>
    const { code, status } = rest
    const inner = cause as (Error & { code?: string }) | undefined
    const answered = (rest['response'] as { status: number } | undefined)?.status
    const kind = (error as Error).constructor
    return { kind, name, message, code, status, answered, cause: [inner?.name, inner?.code] }
  }
}

async function expectSameAsPlain({ create }: Driver, situation: Situation): Promise<void> {
  const { value } = await ground.tokens.getToken()
  const plain = await outcomeOf(create(), situation, { Authorization: `Bearer ${value}` })
  expect(await outcomeOf(create(ground.tokens), situation)).toEqual(plain)
  expect(ground.env.counts.token).toBe(1)
}

describe.each(CLIENTS)('$name has the same outcome as without this package', (client) => {
  it.each<[string, Fault]>([
    ['a 404 with a body', { kind: 'status', status: 404, body: { error: 'x' } }],
    ['a 503 with Retry-After', { kind: 'status', status: 503, retryAfter: 1, body: { error: 'x' } }],
    ['a connection that is reset', { kind: 'reset' }],
    ['a slow body', { kind: 'slow-body', durationMs: 40 }],
    ['a truncated body', { kind: 'truncated-body' }],
    ['a body of 1 MiB', { kind: 'huge-body', bytes: 2 ** 20 }],
    ['text', { kind: 'text', body: '<p>sorry</p>' }],
  ])('after %s', async (_, fault) => {
    await expectSameAsPlain(client, { fault })
  })

  it('if the caller aborts before the response', async () => {
    await expectSameAsPlain(client, { fault: { kind: 'hang' }, aborts: true })
  })

  it('if the caller aborts in the middle of the response', async () => {
    await expectSameAsPlain(client, { fault: { kind: 'hang', at: 'body' }, aborts: true })
  })
})

it.each([AXIOS_HTTP, AXIOS_FETCH, FETCH])(
  'a redirect to a port without a listener has the same outcome as without this package: $name',
  async (client) => {
    await expectSameAsPlain(client, { fault: { kind: 'redirect', location: 'http://127.0.0.1:1/' } })
  },
)

it.each([AXIOS_HTTP, AXIOS_FETCH])(
  'a body beyond maxContentLength has the same outcome as without this package: $name',
  async (client) => {
    const fault = { kind: 'huge-body', bytes: 2 ** 20, gzip: true } as const
    await expectSameAsPlain(client, { fault, options: { maxContentLength: 1_000 } })
  },
)

it.each([AXIOS_HTTP, AXIOS_FETCH])(
  'text instead of JSON has the same outcome as without this package: $name',
  async (client) => {
    const options = { responseType: 'json', transitional: { silentJSONParsing: false } }
    const fault = { kind: 'text', body: '<p>sorry</p>' } as const
    await expectSameAsPlain(client, { fault, options: { ...options, transformResponse: undefined } })
  },
)
