/** A fetch and a clientSecret function whose errors hold the secret, and a token endpoint that says the old token again. */
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { granted, MERCHANT_URL, status } from '../token/harness.ts'
import { record } from './cells.ts'
import { call, echoRig, failAndSearch, forEachClient, leaksIn, SECRET, useLogger } from './echo-rig.ts'

const logger = useLogger()

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
  ['a text instead of an error', BODY],
  ['an object instead of an error', { message: BODY, ...REQUEST }],
  ['its own toJSON and inspect', { toJSON: () => REQUEST, [inspect.custom]: () => SECRET }],
  // Errors that throw when they are read.
  ['a getter that throws', Object.defineProperty(new Error('x'), 'cause', { get: throwing })],
  ['a message that is no text', Object.assign(new Error('x'), { message: { toString: throwing } })],
]

describe('the secret in what fetch rejects with', () => {
  const group = 'where an error of options.fetch holds the secret'

  it.for(forEachClient(ERRORS))('%s: %s', async ([client, row, thrown], { task }) => {
    const made = echoRig(logger)
    made.endpoint.otherwise = () => Promise.reject(thrown)
    const error = 'TokenRequestError'
    await failAndSearch(task, logger, { client, made, error, texts: [BASIC], group, row })
  })
})

const OLD = 'the-secret-before+this/one='
const OLDER: [row: string, error: unknown][] = [
  ['message', new Error(`the vault knew ${OLD}`)],
  ['cause and properties', Object.assign(new Error('x', { cause: new Error(OLD) }), { previous: OLD })],
  ['a text instead of an error', OLD],
]

describe('an older secret in what the clientSecret function throws', () => {
  it.for(forEachClient(OLDER))('%s: %s', async ([client, row, thrown], { task }) => {
    let asked = 0
    const made = echoRig(logger, {
      clientSecret: () => {
        asked += 1
        if (asked === 1) return OLD
        throw thrown
      },
    })
    await made.provider.getToken()
    await made.clock.advance(990_000)
    const group = 'where an error of clientSecret holds an older secret'
    const error = 'TokenRequestError'
    await failAndSearch(task, logger, { client, made, error, texts: [OLD], group, row })
  })
})

const TOKEN = 'old-head.old-body.old-signature'
const echoing = (text: string) => status(400, { error: text, error_description: `you had ${text}` })

const ECHOED = [
  ['the secret', SECRET],
  ['the old token', TOKEN],
] as const

describe('an echo when the token is renewed', () => {
  const group = 'renewals'

  it.for(forEachClient(ECHOED))('%s: %s, after expiry', async ([client, what, text], { task }) => {
    const made = echoRig(logger)
    made.endpoint.answers.push(granted({ access_token: TOKEN }))
    await made.provider.getToken()
    await made.clock.advance(990_000)
    made.endpoint.otherwise = echoing(text)
    const row = `${what}, after expiry`
    await failAndSearch(task, logger, {
      client,
      made,
      error: 'TokenRequestError',
      texts: [TOKEN],
      group,
      row,
    })
  })

  const ofCalls = forEachClient(ECHOED).filter(([client]) => client !== 'provider.getToken()')
  it.for(ofCalls)('%s: %s, after a 401 of the API', async ([column, what, text], { task }) => {
    const made = echoRig(logger)
    made.endpoint.answers.push(granted({ access_token: TOKEN }), echoing(text))
    const got = (await call(column, made.provider).catch((thrown: unknown) => thrown)) as {
      status?: number
      response?: { status: number }
    }
    expect(logger.lines.join(), 'the events').toContain('token-request-failed')
    expect(leaksIn(logger, made, got, [SECRET, TOKEN])).toEqual([])
    const status = got.response?.status ?? got.status
    expect(status).toBe(401)
    const row = `${what}, after a 401 of the API`
    record(task, { table: 'echoes', group, row, column, cell: `the API's ${status}, nothing leaks` })
  })
})

describe('a listener that logs everything, and throws it', () => {
  const row = 'onEvent and the diagnostics channel'

  it('logs no secret and no token', async ({ task }) => {
    const made = echoRig(logger)
    const { provider, endpoint, clock } = made
    endpoint.answers.push(granted({ access_token: TOKEN }), echoing(SECRET))
    const first = await provider.getToken()
    await expect(provider.renewToken(first, { url: MERCHANT_URL })).rejects.toMatchObject({ status: 400 })
    await clock.advance(1_000)
    const second = await provider.renewToken(first, { url: MERCHANT_URL })
    await provider.renewToken(String(second?.value), { url: MERCHANT_URL })
    await call('authFetch', provider, `https://elsewhere.test.example/?secret=${encodeURIComponent(SECRET)}`)
    const types = new Set(logger.lines.flatMap((line) => line.match(/(?<="type":")[^"]+/) ?? []))
    expect([...types].sort()).toEqual([
      'renewal-suppressed',
      'token-acquired',
      'token-rejected',
      'token-renewed',
      'token-request-failed',
      'token-requested',
      'token-withheld',
    ])
    expect(leaksIn(logger, made, first, [SECRET, TOKEN, String(second?.value)])).toEqual([])
    const cell = `${types.size} kinds of events, nothing leaks`
    record(task, { table: 'echoes', group: 'listeners', row, column: 'provider.getToken()', cell })
  })

  it.for([
    ['the secret', SECRET],
    ['the token', TOKEN],
  ])('logs a token whose scope is %s', async ([, scope]) => {
    const made = echoRig(logger)
    made.endpoint.answers.push(granted({ access_token: TOKEN, scope }))
    expect(leaksIn(logger, made, await made.provider.getToken(), [SECRET, TOKEN])).toEqual([])
  })
})
