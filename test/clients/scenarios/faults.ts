/** Faults of an API: callers get the same outcome as without this package, and no token in log output. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import type { Fault } from 'merchant-auth/testing'
import type { Answer, Client, Driver } from '../drivers.ts'
import { until, type World } from '../world.ts'
import type { Scenario } from './scenario.ts'

interface Row {
  readonly name: string
  readonly fault?: Fault
  /** Whether the caller aborts once the API has the request. */
  readonly aborts?: boolean
  readonly drivers?: readonly string[]
  readonly options?: object
  readonly everywhere?: boolean
  readonly requests?: number
}

const AXIOS = ['axios']
const FOLLOWING = ['axios', 'fetch']

const ROWS: readonly Row[] = [
  { name: 'none', everywhere: true },
  { name: 'status 404', fault: { kind: 'status', status: 404, body: { error: 'x' } }, everywhere: true },
  {
    name: 'status 503, Retry-After',
    fault: { kind: 'status', status: 503, retryAfter: 1, body: { error: 'x' } },
  },
  { name: 'status 429, Retry-After', fault: { kind: 'status', status: 429, retryAfter: 1 } },
  { name: 'no response, and the caller aborts', fault: { kind: 'hang' }, aborts: true, everywhere: true },
  { name: 'half a response, and the caller aborts', fault: { kind: 'hang', at: 'body' }, aborts: true },
  { name: 'connection reset', fault: { kind: 'reset' }, everywhere: true },
  { name: 'slow body', fault: { kind: 'slow-body', durationMs: 40 } },
  { name: 'truncated body', fault: { kind: 'truncated-body' } },
  { name: 'body of 1 MiB', fault: { kind: 'huge-body', bytes: 2 ** 20 } },
  {
    name: 'body of 1 MiB, gzip',
    fault: { kind: 'huge-body', bytes: 2 ** 20, gzip: true },
    drivers: FOLLOWING,
  },
  {
    name: 'body of 1 MiB, maxContentLength 1 000',
    fault: { kind: 'huge-body', bytes: 2 ** 20 },
    drivers: AXIOS,
    options: { maxContentLength: 1_000 },
  },
  { name: 'text', fault: { kind: 'text', body: '<p>sorry</p>' } },
  {
    name: 'text instead of JSON',
    fault: { kind: 'text', body: '<p>sorry</p>' },
    drivers: AXIOS,
    options: {
      responseType: 'json',
      transitional: { silentJSONParsing: false },
      transformResponse: undefined,
    },
  },
  {
    name: 'redirect within the API',
    fault: { kind: 'redirect', location: '/merchant/moved' },
    drivers: FOLLOWING,
    requests: 2,
  },
  {
    name: 'redirect to a port without a listener',
    fault: { kind: 'redirect', location: 'http://127.0.0.1:1/' },
    drivers: FOLLOWING,
  },
]

type Outcome = { readonly answer: Answer } | { readonly error: Error }

async function outcomeOf(
  { service }: World,
  { fault, aborts, options }: Row,
  client: Client,
  headers = {},
): Promise<Outcome> {
  const before = service.counts.merchant
  service.clearFaults()
  // Some runtimes themselves send a call again if its connection is reset.
  if (fault !== undefined) service.fail('merchant', fault, { times: fault.kind === 'reset' ? Infinity : 1 })
  const caller = new AbortController()
  const call = client({
    url: `${service.merchantUrl}/orders`,
    method: 'POST',
    body: '{"amount":100}',
    headers: { 'content-type': 'application/json', ...headers },
    signal: caller.signal,
    ...(options && { options }),
  })
  if (aborts) until(() => service.counts.merchant > before).then(() => caller.abort())
  return await call.then(
    (answer) => ({ answer }),
    (error: Error) => ({ error }),
  )
}

/** The parts of an outcome that are equal in every call and runtime. */
function comparable(outcome: Outcome): unknown {
  if ('answer' in outcome) {
    const { status, text, header } = outcome.answer
    const headers = ['content-type', 'content-length', 'content-encoding', 'retry-after'].map(header)
    return { status, text: text.startsWith('{') ? sorted(JSON.parse(text)) : text, headers }
  }
  const { error } = outcome
  const { name, message, cause } = error
  const { status, response, code } = error as Error & {
    status?: number
    response?: { status: number }
    code?: string
  }
  const { code: causeCode, name: causeName } = (cause ?? {}) as { code?: string; name?: string }
  const keys = Object.keys(error).filter((key) => key !== 'request')
  const kind = error.constructor.name
  return { name, message, kind, code, status, causeCode, causeName, keys, answered: response?.status }
}

const classOf = (outcome: Outcome): unknown => ('error' in outcome ? outcome.error.constructor : undefined)

/** The sandbox echoes the headers in the order in which they arrived. */
function sorted(content: { headers?: object }): unknown {
  const { headers } = content
  return headers === undefined ? content : { ...content, headers: Object.entries(headers).sort() }
}

function word(outcome: Outcome): string {
  if ('answer' in outcome) return 'the answer'
  const { name, code, cause } = outcome.error as Error & { code?: unknown }
  const { code: inner } = (cause ?? {}) as { code?: string }
  return typeof code === 'string' ? code : inner === undefined ? name : `${name} (${inner})`
}

type Inspect = { inspect(value: unknown, options?: object): string } | undefined
const bun = Reflect.get(globalThis, 'Bun') as Inspect
const deno = Reflect.get(globalThis, 'Deno') as Inspect

/** Every form in which a value may appear in a log. */
function logOutput(value: unknown): string {
  const { message, stack } = value as Partial<Error>
  return [
    message,
    stack,
    JSON.stringify(value),
    inspect(value, { depth: Infinity }),
    inspect(value, { depth: Infinity, showHidden: true, customInspect: false }),
    bun?.inspect(value, { depth: 50 }),
    deno?.inspect(value, { depth: 50, strAbbreviateSize: 1_000_000, iterableLimit: 1_000_000 }),
  ].join('\n')
}

/** What a caller may log of an outcome, whole and in parts, without what the API itself sent. */
function logged(outcome: Outcome): string {
  const own = ('error' in outcome ? outcome.error : outcome.answer.own) as Record<string, unknown>
  const { config, cause, response, headers } = own
  const parts = [own, config, cause, response, headers, (response as typeof own | undefined)?.['config']]
  return parts
    .filter((part) => typeof part === 'object' && part !== null)
    .map(logOutput)
    .join('\n')
}

const scenarios = ROWS.map(
  (row): Scenario => ({
    group: 'Faults of an API: the outcome is the same as without this package',
    name: row.name,
    ...(row.drivers && { drivers: row.drivers }),
    nodeOnly: row.everywhere !== true,
    run: async (world: World, driver: Driver) => {
      const tokens = world.provider()
      const { value } = await tokens.getToken()
      const bare = await outcomeOf(world, row, driver.create(), { Authorization: `Bearer ${value}` })
      const sends = world.service.counts.merchant
      const attached = await outcomeOf(world, row, driver.create(tokens))
      assert.deepEqual(comparable(attached), comparable(bare))
      assert.equal(classOf(attached), classOf(bare)) // the error class of the caller's own copy of axios
      if (row.fault?.kind !== 'reset') {
        const { requests = 1 } = row
        assert.deepEqual([sends, world.service.counts.merchant], [requests, 2 * requests])
      }
      assert.equal(world.service.counts.token, 1)
      const [, , signature = ''] = value.split('.')
      assert.ok(!logged(attached).includes(signature), 'no token in log output')
      // Without this package axios' own objects contain the token, which proves that the search finds it.
      const own = 'error' in bare ? bare.error : bare.answer.own
      if (driver.name.startsWith('axios')) assert.ok(inspect(own, { depth: 4 }).includes(signature))
      return `${word(attached)}; no token in log output`
    },
  }),
)

export const FAULTS: readonly Scenario[] = scenarios
