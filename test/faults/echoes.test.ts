/** A token endpoint that says the client secret again: nothing of it shows in what callers and listeners can log. */
import { describe, it } from 'vitest'
import { type Answer, granted, status } from '../token/harness.ts'
import { CLIENT_ID, echoRig, failAndSearch, forEachClient, SECRET, useLogger } from './echo-rig.ts'

const logger = useLogger()

const oauth = (...names: string[]): Answer =>
  status(400, { error: 'x', ...Object.fromEntries(names.map((name) => [name, `got ${SECRET}`])) })

const everywhere = { access_token: SECRET, expires_in: SECRET, token_type: SECRET, scope: SECRET }

/** Other spellings are those of test/redact.test.ts. */
const BASIC = `Basic ${Buffer.from(`${CLIENT_ID}:${SECRET}`).toString('base64')}`
const ACROSS = `${'x'.repeat(90)}${SECRET}${'x'.repeat(190)}${SECRET}`

const PLACES: [row: string, error: string, answer: Answer][] = [
  ['error_description', 'TokenRequestError', oauth('error_description')],
  ['error', 'TokenRequestError', oauth('error')],
  ['error_uri and other fields', 'TokenRequestError', oauth('error_uri', 'client_secret', 'detail')],
  ['names of fields', 'TokenRequestError', status(400, { [SECRET]: 'x', error: 'x' })],
  ['JSON of another shape', 'TokenRequestError', status(400, { errors: [{ detail: SECRET }] })],
  ['a JSON text', 'TokenRequestError', status(400, JSON.stringify(SECRET))],
  ['JSON cut short', 'TokenRequestError', status(400, `{"error":"x","error_description":"${SECRET}`)],
  ['Basic header', 'TokenRequestError', status(401, { error: 'x', error_description: `got ${BASIC}` })],
  [
    'across the end of what is shown',
    'TokenRequestError',
    status(400, { error: ACROSS, error_description: ACROSS }),
  ],
  ['HTML', 'TokenRequestError', status(500, `<html><pre>${SECRET}</pre></html>`)],
  ['location of a redirect', 'TokenRequestError', status(302, '', { location: `/?secret=${SECRET}` })],
  ['headers', 'TokenRequestError', status(401, '', { 'x-request': SECRET, 'www-authenticate': SECRET })],
  ['Retry-After', 'TokenRequestError', status(429, '', { 'retry-after': SECRET })],
  ['status text', 'TokenRequestError', () => new Response('', { status: 400, statusText: SECRET })],
  ['200, all fields bad', 'TokenResponseError', granted(everywhere)],
  ['200, names of fields', 'TokenResponseError', status(200, { [SECRET]: SECRET })],
  ['200, JSON cut short', 'TokenResponseError', status(200, `{"access_token":"${SECRET}`)],
  ['200, HTML', 'TokenResponseError', status(200, `<html>${SECRET}</html>`)],
]

describe('the secret echoed by the token endpoint', () => {
  it.for(forEachClient(PLACES))('%s: %s', async ([client, row, error, answer], { task }) => {
    const made = echoRig(logger)
    made.endpoint.otherwise = answer
    const group = 'where the token endpoint says the secret'
    await failAndSearch(task, logger, { client, made, error, texts: [BASIC], group, row })
  })
})
