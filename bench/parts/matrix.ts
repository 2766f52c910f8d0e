/** What happens where something goes wrong, for each client: counted, and the same in every run. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { inspect } from 'node:util'
import { thirtyLines, twentyLines } from '../contenders/by-hand.ts'
import type { CallOptions, Client, Contender, Service } from '../contenders/contender.ts'
import { contenders } from '../contenders/index.ts'
import { shown } from '../numbers.ts'
import { type Check, eachOf, inOwnProcess, mustBeFound, progress, runPart, type Section } from '../part.ts'
import { versionOf } from '../report.ts'
import { AUDIENCE, createToken } from '../service.ts'

/** Instead of the handwritten interceptor of the other parts, which does not handle a 401. */
const byHand: readonly Contender[] = [thirtyLines, twentyLines]

const COLD = 1_000
const REVOKED = 100
const IN_TURN = 30
/** Reached only by a client that hangs. */
const TIMEOUT_MS = 60_000
const HANGS_MS = 10_000
const LINE = 'one line of the order\n'

/** The payment service and another origin, in the process of the client: nothing here is timed. */
interface World {
  readonly service: Service
  tokenRequests: number
  /** What the token endpoint does instead of issuing a token. */
  tokenEndpoint: 'issues' | 'is down' | 'redirects'
  /** The tokens that the API accepts. */
  readonly valid: Set<string>
  /** Whether the API also rejects tokens that are issued from now on. */
  rejectsAll: boolean
  /** So many calls arrive before the first is answered. */
  gate: number
  /** The last body that the API got. */
  body: string
  /** Header and body of what the other origin got. */
  elsewhere: string
  close(): void
}

async function startWorld(): Promise<World> {
  const held: (() => void)[] = []
  const reply = async (
    request: IncomingMessage,
  ): Promise<{ status: number; body?: object; location?: string }> => {
    const body = await text(request)
    if (request.url === '/oauth/token') {
      world.tokenRequests += 1
      if (world.tokenEndpoint === 'is down')
        return { status: 503, body: { error: 'temporarily_unavailable' } }
      if (world.tokenEndpoint === 'redirects')
        return { status: 307, location: `${originOf(other)}/oauth/token` }
      return { status: 200, body: issued() }
    }
    if (request.url?.endsWith('/moved')) return { status: 307, location: `${originOf(other)}/orders` }
    if (request.url?.endsWith('/broken')) return { status: 500 }
    world.body = body
    const isValid = world.valid.has(request.headers.authorization ?? '') // as it was when the call arrived
    if (held.length < world.gate) {
      const { promise, resolve } = Promise.withResolvers<void>()
      if (held.push(resolve) === world.gate) for (const release of held) release()
      await promise
    }
    return { status: isValid ? 200 : 401, body: {} }
  }
  const issued = () => {
    const token = createToken(world.tokenRequests, 36_000)
    if (!world.rejectsAll) world.valid.add(`Bearer ${token}`)
    return { access_token: token, expires_in: 36_000, scope: 'merchant', token_type: 'Bearer' }
  }
  const main = await listening((request, response) => {
    reply(request).then(({ status, body, location }) => {
      const headers = {
        'content-type': 'application/json',
        ...(location && { location }),
        ...(status === 401 && { 'www-authenticate': 'Bearer error="invalid_token"' }),
      }
      response.writeHead(status, headers).end(JSON.stringify(body ?? {}))
    }, response.destroy)
  })
  const other = await listening((request, response) => {
    text(request).then((body) => {
      world.elsewhere += `${request.headers.authorization ?? ''} ${body}`
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(issued()))
    }, response.destroy)
  })
  const world: World = {
    service: {
      authUrl: originOf(main),
      audience: AUDIENCE,
      clientId: 'client',
      clientSecret: SECRET,
      apiUrl: `${originOf(main)}/merchant`,
    },
    tokenRequests: 0,
    tokenEndpoint: 'issues',
    valid: new Set(),
    rejectsAll: false,
    gate: 0,
    body: '',
    elsewhere: '',
    close() {
      for (const server of [main, other]) {
        server.close()
        server.closeAllConnections()
      }
    },
  }
  return world
}

const SECRET = 'client-secret-for-the-matrix'

async function listening(listener: RequestListener): Promise<Server> {
  const server = createServer(listener).listen({ host: '127.0.0.1', port: 0, backlog: 4_096 })
  await once(server, 'listening')
  return server
}

function originOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

// What a caller gets

type Outcome = { readonly status: number } | { readonly error: unknown }

function outcomeOf(call: Promise<number>): Promise<Outcome> {
  const late = delay(HANGS_MS, undefined, { ref: false }).then(() => ({ error: new Error('hangs') }))
  const settled = call.then(
    (status) => ({ status }),
    (error: unknown) => ({ error }),
  )
  return Promise.race([settled, late])
}

function statusIn(outcome: Outcome): number | undefined {
  if ('status' in outcome) return outcome.status
  return (outcome.error as { response?: { status?: number } }).response?.status
}

function named(outcome: Outcome): string {
  if ('status' in outcome) return `the ${outcome.status}`
  const { error } = outcome
  return error instanceof Error ? error.constructor.name : String(error)
}

// The situations

/** What was found for one client. */
interface Cells {
  readonly cold: number
  readonly revoked: { readonly seen: number; readonly tokenRequests: number }
  readonly rejecting: number
  readonly down: { readonly tokenRequests: number; readonly got: string }
  readonly redirects: readonly string[]
  readonly stream: string
  readonly logged: readonly string[]
}

/** Each situation has a service and a client of its own. */
interface Scene {
  readonly world: World
  readonly isFetch: boolean
  /** Creates the client, as the first call does. Some request a token then. */
  setUp(): Promise<Client>
  send(path?: string, options?: CallOptions): Promise<number>
}

async function firstCalls({ world, send }: Scene): Promise<number> {
  await Promise.all(Array.from({ length: COLD }, () => outcomeOf(send())))
  return world.tokenRequests
}

async function everyTokenRejected({ world, send }: Scene): Promise<number> {
  world.rejectsAll = true
  for (let call = 0; call < IN_TURN; call += 1) await outcomeOf(send())
  return world.tokenRequests
}

async function tokenEndpointDown({ world, setUp, send }: Scene): Promise<Cells['down']> {
  await setUp()
  world.tokenEndpoint = 'is down'
  world.valid.clear() // for a client that has a token from its set-up
  const before = world.tokenRequests
  const outcomes: Outcome[] = []
  for (let call = 0; call < IN_TURN; call += 1) outcomes.push(await outcomeOf(send()))
  const got = [...new Set(outcomes.map(named))].join(', ')
  return { tokenRequests: world.tokenRequests - before, got }
}

async function tokenRevoked({ world, send }: Scene): Promise<Cells['revoked']> {
  await send()
  world.valid.clear()
  world.gate = REVOKED
  const before = world.tokenRequests
  const outcomes = await Promise.all(Array.from({ length: REVOKED }, () => outcomeOf(send())))
  return {
    seen: outcomes.filter((outcome) => statusIn(outcome) !== 200).length,
    tokenRequests: world.tokenRequests - before,
  }
}

async function callRedirected({ world, send }: Scene): Promise<string[]> {
  await outcomeOf(send('/moved'))
  return world.elsewhere.includes('Bearer') ? ['token'] : []
}

async function tokenRequestRedirected({ world, send }: Scene): Promise<string[]> {
  world.tokenEndpoint = 'redirects'
  await outcomeOf(send())
  return world.elsewhere.includes(SECRET) ? ['secret'] : []
}

const SENT_ONCE = 'sent once; the caller gets the 401'

async function streamAfter401({ world, isFetch, send }: Scene): Promise<string> {
  await send()
  world.valid.clear()
  const lines = Readable.from([LINE, LINE].map((line) => Buffer.from(line)))
  const body = isFetch ? (Readable.toWeb(lines) as ReadableStream) : lines
  const outcome = await outcomeOf(
    send('/orders', { method: 'POST', body, ...(isFetch && { duplex: 'half' }) }),
  )
  if (statusIn(outcome) !== 200)
    return statusIn(outcome) === 401 ? SENT_ONCE : `sent once; error: ${named(outcome)}`
  return world.body === LINE + LINE
    ? 'sent again'
    : `sent again, ${world.body === '' ? '**empty**' : 'in part'}`
}

async function failedCallLogged({ world, send }: Scene): Promise<string[]> {
  await send()
  const log = logOf(await outcomeOf(send('/broken')))
  return [...world.valid].some((header) => log.includes(header.slice('Bearer '.length))) ? ['token'] : []
}

async function failedTokenRequestLogged({ world, send }: Scene): Promise<string[]> {
  world.tokenEndpoint = 'is down'
  return logOf(await outcomeOf(send())).includes(SECRET) ? ['secret'] : []
}

const run = inOwnProcess(import.meta, cellsOf)

async function cellsOf({ name }: { name: string }): Promise<Cells> {
  const contender = [...contenders, ...byHand].find((one) => one.name === name)
  if (!contender) throw new Error(`No contender is called ${name}`)
  const found = async <Found>(situation: (scene: Scene) => Promise<Found>): Promise<Found> => {
    const world = await startWorld()
    let client: Promise<Client> | undefined
    const setUp = () => (client ??= contender.create(world.service))
    const send: Scene['send'] = async (path, options) => {
      const { call, send = call } = await setUp()
      return await send(path, options)
    }
    const result = await situation({ world, setUp, send, isFetch: contender.client === 'fetch' })
    await client?.then(
      ({ close }) => close?.(),
      () => {}, // the set-up failed, as it was meant to
    )
    world.close()
    return result
  }
  return {
    cold: await found(firstCalls),
    rejecting: await found(everyTokenRejected),
    down: await found(tokenEndpointDown),
    revoked: await found(tokenRevoked),
    redirects: [...(await found(callRedirected)), ...(await found(tokenRequestRedirected))],
    stream: await found(streamAfter401),
    logged: [...(await found(failedCallLogged)), ...(await found(failedTokenRequestLogged))],
  }
}

/** What console.error, and a logger that writes JSON, show of an error; nothing of a response. */
function logOf(outcome: Outcome): string {
  if ('status' in outcome) return ''
  try {
    return inspect(outcome.error) + JSON.stringify(outcome.error)
  } catch {
    return inspect(outcome.error) // it is circular
  }
}

// The table

/** One column: its head, what it says of a client, and a figure that has a limit for this package. */
interface Column {
  readonly head: string
  readonly text: (cells: Cells) => string
  readonly value: (cells: Cells) => number
  readonly limit: number
}

const COLUMNS: readonly Column[] = [
  {
    head: `token requests for ${shown(COLD)} calls at startup`,
    text: ({ cold }) => shown(cold),
    value: ({ cold }) => cold,
    limit: 1,
  },
  {
    head: `calls that fail, of ${REVOKED} in flight when the token is revoked`,
    text: ({ revoked: { seen, tokenRequests } }) =>
      tokenRequests > 1 ? `${seen}, with ${tokenRequests} token requests` : shown(seen),
    value: ({ revoked }) => revoked.seen,
    limit: 0,
  },
  {
    head: 'redirects send to another origin',
    text: ({ redirects }) => redirects.join(', ') || 'nothing',
    value: ({ redirects }) => redirects.length,
    limit: 0,
  },
  {
    head: 'logged errors show',
    text: ({ logged }) => logged.join(', ') || 'nothing',
    value: ({ logged }) => logged.length,
    limit: 0,
  },
  {
    head: `token requests for ${IN_TURN} calls, while the API rejects every token`,
    text: ({ rejecting }) => shown(rejecting),
    value: ({ rejecting }) => rejecting,
    limit: 2,
  },
  {
    head: `token requests for ${IN_TURN} calls, while the token endpoint is down, and the error`,
    text: ({ down }) => `${down.tokenRequests}, ${down.got}`,
    value: ({ down }) => down.tokenRequests,
    limit: 3,
  },
  {
    head: 'an upload by stream, its token rejected, is',
    text: ({ stream }) => stream,
    value: ({ stream }) => Number(stream !== SENT_ONCE),
    limit: 0,
  },
]

async function matrix(): Promise<Section> {
  const ofKind = (kind: Contender['kind']): Contender[] =>
    contenders.filter(
      (contender) =>
        contender.kind === kind && contender.client !== 'other' && contender.name !== 'createAuthInterceptor',
    )
  const chosen = [...ofKind('ours'), ...byHand, ...ofKind('peer')]
  const rows = await eachOf(chosen, 2, async (contender) => {
    progress(contender.name)
    const outcome = await run({ name: contender.name }, TIMEOUT_MS)
    mustBeFound(contender, outcome)
    return { contender, outcome }
  })
  return {
    title: 'Where something goes wrong',
    intro:
      `Each situation for each client, with HTTP on loopback. ${shown(COLD)} first calls begin at once. ${IN_TURN} calls follow each other while the API ` +
      'returns 401 to every token, or while the token endpoint returns 503: the first token request counts, retries too, and ' +
      `the name is that of the error that callers get. ${REVOKED} calls are in flight with the same token when the API begins to reject it. The API, ` +
      'then the token endpoint, redirects (307) to another origin. A POST sends a stream with a revoked token. What ' +
      '`console.error` and `JSON.stringify` show of an error is searched: the API returns 500, then the token endpoint 503.',
    columns: ['', ...COLUMNS.map(({ head }) => head)],
    rows: rows.map(({ contender, outcome }) => [
      titleOf(contender),
      ...('found' in outcome ? COLUMNS.map(({ text }) => text(outcome.found)) : [outcome.why]),
    ]),
    notes: [
      'Twenty lines by hand: a request interceptor keeps the token until it expires, and a response interceptor requests a ' +
        'new one after a 401 and repeats the call. Thirty lines: concurrent calls also share one token request, and a 401 ' +
        'forgets only the token that the call carried.',
      'axios-auth-refresh has its first token from the set-up. undici follows no redirects.',
      'A stream that is sent again **empty**: the API gets the call without its body, and the caller gets a 200.',
    ],
    checks: rows.flatMap(({ contender, outcome }) =>
      contender.kind === 'ours' && 'found' in outcome ? checksOf(contender, outcome.found) : [],
    ),
  }
}

function titleOf({ name, packages: [first = ''] }: Contender): string {
  return name === first ? `${name} ${versionOf(first)}` : `${name} (${first} ${versionOf(first)})`
}

function checksOf({ name }: Contender, cells: Cells): Check[] {
  return COLUMNS.map(({ head, value, limit }) => {
    return { name: `${name}: ${head}`, value: value(cells), limit, tolerance: 1 }
  })
}

await runPart(import.meta, matrix)
