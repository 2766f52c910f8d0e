/** Foreign text with a secret in it: no error and no event that comes of it contains the secret. */
import type { TokenProviderOptions } from 'merchant-auth'
import { expect, it } from 'vitest'
import { Fleet } from '../store/fleet.ts'
import { findLeaks } from '../support/leaks.ts'
import { type Answer, failed, granted, grantedWith, type Rig, rejection, rig, status } from './harness.ts'

/** Made of characters that JSON, URLs and forms each encode differently. */
const SECRET = `hush+"hush"/it's<me>&you=`
const BASIC = `Basic ${Buffer.from(`client-1:${SECRET}`).toString('base64')}`
const BODY = JSON.stringify({ client_secret: SECRET })
const PATH = `/?s=${encodeURIComponent(SECRET)}`

async function failsWithoutLeak(made: Rig, secrets: readonly string[]): Promise<void> {
  expect([await failed(made), made.events].flatMap((got) => findLeaks(got, secrets))).toEqual([])
  expect(made.events.some(({ type }) => type === 'token-request-failed')).toBe(true)
}

function echoRig(options: Partial<TokenProviderOptions> = {}): Rig {
  return rig([], { clientSecret: SECRET, retries: 0, ...options } as Partial<TokenProviderOptions>)
}

const rejects = (error: unknown): Answer => {
  return () => Promise.reject(error)
}

const ECHOES: [where: string, answer: Answer][] = [
  ['error', status(400, { error: `got ${SECRET}` })],
  ['error_description', status(400, { error: 'x', error_description: `got ${BODY}` })],
  ['a Basic header in error_description', status(401, { error: 'x', error_description: `got ${BASIC}` })],
  ['other fields and their names', status(400, { error: 'x', [SECRET]: 'x', detail: SECRET })],
  ['JSON that breaks off', status(400, `{"error":"x","error_description":"${SECRET}`)],
  ['HTML', status(500, `<html><pre>${SECRET}</pre></html>`)],
  ['the location of a redirect', status(302, '', { location: PATH })],
  ['headers', status(429, '', { 'retry-after': SECRET, 'www-authenticate': SECRET })],
  [
    'the name of a quota',
    status(429, '', { 'Auth0-Client-Quota-Limit': `b="${SECRET.replaceAll('"', '\\"')}";q=10;r=0;t=60` }),
  ],
  ['the status text', () => new Response('', { status: 400, statusText: SECRET })],
  ['every field of a 200', granted({ access_token: SECRET, expires_in: SECRET, token_type: SECRET })],
  ['the message of an error of fetch', rejects(new TypeError(`cannot send ${BODY} to ${PATH}`))],
  ['causes', rejects(new TypeError('x', { cause: new Error(BODY, { cause: new Error(BASIC) }) }))],
  [
    'properties of an error',
    rejects(Object.assign(new Error('x'), { code: SECRET, config: { data: BODY } })),
  ],
  ['the stack of an error', rejects(Object.assign(new Error('x'), { stack: `Error: x\n    at ${PATH}` }))],
  ['a string instead of an error', rejects(BODY)],
]

it.for(ECHOES)('a client secret that the token endpoint echoes shows nowhere: %s', async ([, answer]) => {
  const made = echoRig()
  made.endpoint.otherwise = answer
  await failsWithoutLeak(made, [SECRET, BASIC.slice('Basic '.length)])
})

const OLD = 'the-secret-before+this/one='

it('an older secret in an error of the clientSecret function shows nowhere', async () => {
  const secrets = [OLD]
  const made = echoRig({
    clientSecret: () => {
      const secret = secrets.shift()
      if (secret === undefined)
        throw Object.assign(new Error(OLD, { cause: new Error(OLD) }), { previous: OLD })
      return secret
    },
  })
  await made.provider.getToken()
  await made.clock.advance(990_000)
  await failsWithoutLeak(made, [OLD])
})

const TOKEN = 'old-head.old-body.old-signature'

it('an expired token that the token endpoint echoes shows nowhere', async () => {
  const made = echoRig()
  made.endpoint.answers.push(granted({ access_token: TOKEN }))
  await made.provider.getToken()
  await made.clock.advance(990_000)
  made.endpoint.otherwise = status(400, { error: TOKEN, error_description: `you had ${TOKEN}` })
  await failsWithoutLeak(made, [TOKEN])
})

it('an expired token of the store that the token endpoint echoes shows nowhere', async () => {
  const fleet = new Fleet()
  fleet.endpoint.answers.push(granted({ access_token: TOKEN }))
  await fleet.begin()
  const { provider, events } = fleet.start({ retries: 0 })
  await provider.getToken()
  await fleet.skip(990_000)
  fleet.endpoint.otherwise = status(400, { error: TOKEN })
  expect(findLeaks([await rejection(provider.getToken()), events], [TOKEN])).toEqual([])
})

it('the token of an invalid response that the token endpoint echoes shows nowhere', async () => {
  const made = echoRig()
  made.endpoint.answers.push(granted({ access_token: TOKEN, token_type: 'mac' }))
  await failed(made)
  await made.clock.advance(1_000)
  made.endpoint.otherwise = status(400, { error: TOKEN, error_description: `you had ${TOKEN}` })
  await failsWithoutLeak(made, [TOKEN])
})

it('the token of a response that echoes it as the name of a quota shows in no event', async () => {
  const quota = { 'Auth0-Client-Quota-Limit': `b=${TOKEN};q=10;r=0;t=60` }
  const { provider, events } = rig([grantedWith(quota, { access_token: TOKEN })])
  expect((await provider.getToken()).value).toBe(TOKEN)
  expect(events).toContainEqual(
    expect.objectContaining({ quota: [expect.objectContaining({ name: '[hidden]', remaining: 0 })] }),
  )
  expect(findLeaks(events, [TOKEN])).toEqual([])
})
