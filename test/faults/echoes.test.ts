/** Secrets and tokens in errors and token responses never leak into what callers and listeners can log. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { inspect } from 'node:util'
import axios, { AxiosError, type InternalAxiosRequestConfig } from 'axios'
import { createAuthFetch, type TokenProvider, type TokenProviderOptions } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { afterEach, beforeEach, describe, expect, it, type TestContext } from 'vitest'
import { findLeaks } from '../support/leaks.ts'
import { type Answer, granted, MERCHANT_URL, type Rig, rejection, rig, status } from '../token/harness.ts'
import { record } from './cells.ts'

/** Made of characters that HTML, JSON, URLs, forms and shells each encode differently. */
const SECRET = `hush+"hush"/it's<me>&you=`
const CLIENT_ID = 'client-1'

const CLIENTS = ['provider.getToken()', 'axios api.get()', 'authFetch'] as const
type Client = (typeof CLIENTS)[number]

/** Each row with each client. */
function forEachClient<T extends readonly unknown[]>(rows: readonly T[]): [Client, ...T][] {
  return rows.flatMap((row) => CLIENTS.map((client): [Client, ...T] => [client, ...row]))
}

/** A call with this client, to an API that answers 401. */
function call(client: Client, provider: TokenProvider, url: string = MERCHANT_URL): Promise<unknown> {
  if (client === 'provider.getToken()') return provider.getToken()
  if (client === 'authFetch') {
    const rejecting = () => Promise.resolve(new Response('', { status: 401 }))
    return createAuthFetch(provider, { fetch: rejecting })(url)
  }
  const rejecting = (config: InternalAxiosRequestConfig): Promise<never> => {
    const response = { status: 401, statusText: '', headers: {}, config, data: '' }
    return Promise.reject(new AxiosError('401', AxiosError.ERR_BAD_REQUEST, config, {}, response))
  }
  const api = axios.create({ adapter: rejecting })
  attachAuth(api, provider)
  return api.get(url)
}

/** The lines of a listener that logs everything from onEvent and the diagnostics channel. */
let lines: string[]
const log = (event: unknown): void => {
  lines.push(inspect(event, { showHidden: true, depth: Infinity, getters: true }))
  lines.push(JSON.stringify(event), Object.values(event as object).join())
}
beforeEach(() => {
  lines = []
  subscribe('merchant-auth', log)
})
afterEach(() => void unsubscribe('merchant-auth', log))

/** A provider with the secret, and a listener that logs and then throws each event. */
function echoRig(options: Partial<TokenProviderOptions> = {}): Rig {
  const onEvent = (event: unknown): never => {
    log(event)
    throw event
  }
  return rig([], {
    clientId: CLIENT_ID,
    clientSecret: SECRET,
    retries: 0,
    onEvent,
    ...options,
  } as TokenProviderOptions)
}

/** Where any of the texts appears in what a caller got or a listener logged. */
function leaksIn({ provider }: Rig, got: unknown, texts: readonly string[]): string[] {
  return [got, provider, lines, lines.join('\n')].flatMap((value) => findLeaks(value, texts))
}

/** The row of a table, and a text that must not leak, besides the secret in its usual encodings. */
interface Searched {
  readonly client: Client
  readonly group: string
  readonly row: string
  readonly text?: string
  /** The name of the error that the caller should get. */
  readonly error?: string
}

/** Lets the token request of a call fail, makes another call within the cooldown, and searches both errors. */
async function failAndSearch(
  task: TestContext['task'],
  made: Rig,
  { client, group, row, text = SECRET, error = 'TokenRequestError' }: Searched,
): Promise<void> {
  const first = await rejection(call(client, made.provider))
  const second = await rejection(call(client, made.provider))
  expect(lines.join(), 'the events').toContain('token-request-failed')
  for (const got of [first, second]) {
    expect(leaksIn(made, got, [SECRET, text])).toEqual([])
    expect(got.name).toBe(error)
  }
  record(task, { table: 'echoes', group, row, column: client, cell: `${first.name}, nothing leaks` })
}

const BODY = JSON.stringify({ client_secret: SECRET })
const BASIC = `Basic ${Buffer.from(SECRET).toString('base64')}`
const REQUEST = { url: `/?s=${encodeURIComponent(SECRET)}`, body: BODY, headers: { authorization: BASIC } }
const throwing = (): never => {
  throw new Error(BODY)
}

const ERRORS: [row: string, error: unknown][] = [
  ['message', new TypeError(`cannot send ${BODY}`)],
  ['cause of the cause', new TypeError('x', { cause: new Error(BODY, { cause: new Error(REQUEST.url) }) })],
  ['properties', Object.assign(new Error('x'), { request: REQUEST, config: { data: BODY } })],
  ['properties of the cause', new Error('x', { cause: Object.assign(new Error('y'), { REQUEST }) })],
  ['name and code', Object.assign(new Error('x'), { name: SECRET, code: SECRET, errno: SECRET })],
  ['stack', Object.assign(new Error('x'), { stack: `Error: x\n    at ${REQUEST.url}` })],
  ['an AggregateError', new AggregateError([new Error(BODY), new Error(REQUEST.url)], SECRET)],
  ['a string instead of an error', BODY],
  ['an object instead of an error', { message: BODY, ...REQUEST }],
  ['its own toJSON and inspect', { toJSON: () => REQUEST, [inspect.custom]: () => SECRET }],
  // Errors that throw when they are read.
  ['a getter that throws', Object.defineProperty(new Error('x'), 'cause', { get: throwing })],
  ['a message that is not a string', Object.assign(new Error('x'), { message: { toString: throwing } })],
]

describe('a secret in an error of options.fetch', () => {
  const group = 'an error of options.fetch that contains the secret'

  it.for(forEachClient(ERRORS))('does not leak: %s, %s', async ([client, row, thrown], { task }) => {
    const made = echoRig()
    made.endpoint.otherwise = () => Promise.reject(thrown)
    await failAndSearch(task, made, { client, text: BASIC, group, row })
  })
})

const OLD = 'the-secret-before+this/one='
const OLDER: [row: string, error: unknown][] = [
  ['message', new Error(`the vault knew ${OLD}`)],
  ['cause and properties', Object.assign(new Error('x', { cause: new Error(OLD) }), { previous: OLD })],
  ['a string instead of an error', OLD],
]

describe('an older secret in an error of the clientSecret function', () => {
  it.for(forEachClient(OLDER))('does not leak: %s, %s', async ([client, row, thrown], { task }) => {
    let asked = 0
    const made = echoRig({
      clientSecret: () => {
        asked += 1
        if (asked === 1) return OLD
        throw thrown
      },
    })
    await made.provider.getToken()
    await made.clock.advance(990_000)
    const group = 'an error of clientSecret that contains an older secret'
    await failAndSearch(task, made, { client, text: OLD, group, row })
  })
})

const TOKEN = 'old-head.old-body.old-signature'
const echoing = (text: string) => status(400, { error: text, error_description: `you had ${text}` })

const ECHOED = [
  ['the secret', SECRET],
  ['the old token', TOKEN],
] as const

describe('an echo in a failed renewal', () => {
  const group = 'renewals'

  it.for(forEachClient(ECHOED))(
    'does not leak: %s, %s, after expiry',
    async ([client, what, text], { task }) => {
      const made = echoRig()
      made.endpoint.answers.push(granted({ access_token: TOKEN }))
      await made.provider.getToken()
      await made.clock.advance(990_000)
      made.endpoint.otherwise = echoing(text)
      await failAndSearch(task, made, { client, text: TOKEN, group, row: `${what}, after expiry` })
    },
  )

  const ofCalls = forEachClient(ECHOED).filter(([client]) => client !== 'provider.getToken()')
  it.for(ofCalls)(
    'does not leak: %s, %s, after a 401 from the API',
    async ([column, what, text], { task }) => {
      const made = echoRig()
      made.endpoint.answers.push(granted({ access_token: TOKEN }), echoing(text))
      const got = (await call(column, made.provider).catch((thrown: unknown) => thrown)) as {
        status?: number
        response?: { status: number }
      }
      expect(lines.join(), 'the events').toContain('token-request-failed')
      expect(leaksIn(made, got, [SECRET, TOKEN])).toEqual([])
      const status = got.response?.status ?? got.status
      expect(status).toBe(401)
      const row = `${what}, after a 401 from the API`
      record(task, { table: 'echoes', group, row, column, cell: `the API's ${status}, nothing leaks` })
    },
  )
})

describe('a listener that logs and throws each event', () => {
  const row = 'onEvent and the diagnostics channel'

  it('logs no secret and no token', async ({ task }) => {
    const made = echoRig()
    const { provider, endpoint, clock } = made
    endpoint.answers.push(granted({ access_token: TOKEN }), echoing(SECRET))
    const first = await provider.getToken()
    await expect(provider.renewToken(first, { url: MERCHANT_URL })).rejects.toMatchObject({ status: 400 })
    await clock.advance(1_000)
    const second = await provider.renewToken(first, { url: MERCHANT_URL })
    await provider.renewToken(String(second?.value), { url: MERCHANT_URL })
    await call('authFetch', provider, `https://elsewhere.test.example/?secret=${encodeURIComponent(SECRET)}`)
    const types = new Set(lines.flatMap((line) => line.match(/(?<="type":")[^"]+/) ?? []))
    expect([...types].sort()).toEqual([
      'renewal-suppressed',
      'token-acquired',
      'token-rejected',
      'token-renewed',
      'token-request-failed',
      'token-requested',
      'token-withheld',
    ])
    expect(leaksIn(made, first, [SECRET, TOKEN, String(second?.value)])).toEqual([])
    const cell = `${types.size} kinds of events, nothing leaks`
    record(task, { table: 'echoes', group: 'listeners', row, column: 'provider.getToken()', cell })
  })

  it.for([
    ['the secret', SECRET],
    ['the token', TOKEN],
  ])('logs no secret and no token if the scope of the token is %s', async ([, scope]) => {
    const made = echoRig()
    made.endpoint.answers.push(granted({ access_token: TOKEN, scope }))
    expect(leaksIn(made, await made.provider.getToken(), [SECRET, TOKEN])).toEqual([])
  })
})

const oauth = (...names: string[]): Answer =>
  status(400, { error: 'x', ...Object.fromEntries(names.map((name) => [name, `got ${SECRET}`])) })

const everywhere = { access_token: SECRET, expires_in: SECRET, token_type: SECRET, scope: SECRET }

/** Other encodings are tested in test/redact.test.ts. */
const CREDENTIALS = `Basic ${Buffer.from(`${CLIENT_ID}:${SECRET}`).toString('base64')}`
const ACROSS = `${'x'.repeat(90)}${SECRET}${'x'.repeat(190)}${SECRET}`

const PLACES: [row: string, error: string, answer: Answer][] = [
  ['error_description', 'TokenRequestError', oauth('error_description')],
  ['error', 'TokenRequestError', oauth('error')],
  ['error_uri and other fields', 'TokenRequestError', oauth('error_uri', 'client_secret', 'detail')],
  ['field names', 'TokenRequestError', status(400, { [SECRET]: 'x', error: 'x' })],
  ['JSON of another shape', 'TokenRequestError', status(400, { errors: [{ detail: SECRET }] })],
  ['a JSON string', 'TokenRequestError', status(400, JSON.stringify(SECRET))],
  ['JSON cut short', 'TokenRequestError', status(400, `{"error":"x","error_description":"${SECRET}`)],
  ['Basic header', 'TokenRequestError', status(401, { error: 'x', error_description: `got ${CREDENTIALS}` })],
  [
    'across the truncation limit',
    'TokenRequestError',
    status(400, { error: ACROSS, error_description: ACROSS }),
  ],
  ['HTML', 'TokenRequestError', status(500, `<html><pre>${SECRET}</pre></html>`)],
  ['location of a redirect', 'TokenRequestError', status(302, '', { location: `/?secret=${SECRET}` })],
  ['headers', 'TokenRequestError', status(401, '', { 'x-request': SECRET, 'www-authenticate': SECRET })],
  ['Retry-After', 'TokenRequestError', status(429, '', { 'retry-after': SECRET })],
  ['status text', 'TokenRequestError', () => new Response('', { status: 400, statusText: SECRET })],
  ['200, all fields invalid', 'TokenResponseError', granted(everywhere)],
  ['200, field names', 'TokenResponseError', status(200, { [SECRET]: SECRET })],
  ['200, JSON cut short', 'TokenResponseError', status(200, `{"access_token":"${SECRET}`)],
  ['200, HTML', 'TokenResponseError', status(200, `<html>${SECRET}</html>`)],
]

describe('a secret that the token endpoint echoes', () => {
  it.for(forEachClient(PLACES))('does not leak: %s, %s', async ([client, row, error, answer], { task }) => {
    const made = echoRig()
    made.endpoint.otherwise = answer
    const group = 'a token endpoint that echoes the secret'
    await failAndSearch(task, made, { client, text: CREDENTIALS, group, row, error })
  })
})
