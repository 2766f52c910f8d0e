/** A token endpoint that says the client secret again: nothing of it shows in what callers and listeners can log. */
import { describe, it } from 'vitest'
import { type Answer, granted, status } from '../token/harness.ts'
import { CLIENT_ID, echoRig, failAndSearch, forEachClient, SECRET, useLogger } from './echo-rig.ts'

const logger = useLogger()

const oauth = (...names: string[]): Answer =>
  status(400, { error: 'x', ...Object.fromEntries(names.map((name) => [name, `got ${SECRET}`])) })

const everywhere = { access_token: SECRET, expires_in: SECRET, token_type: SECRET, scope: SECRET }

const PLACES: [row: string, error: string, answer: Answer][] = [
  ['error_description', 'TokenRequestError', oauth('error_description')],
  ['error', 'TokenRequestError', oauth('error')],
  ['error_uri and other fields', 'TokenRequestError', oauth('error_uri', 'client_secret', 'detail')],
  ['names of fields', 'TokenRequestError', status(400, { [SECRET]: 'x', error: 'x' })],
  ['JSON of another shape', 'TokenRequestError', status(400, { errors: [{ detail: SECRET }] })],
  ['a JSON text', 'TokenRequestError', status(400, JSON.stringify(SECRET))],
  ['JSON cut short', 'TokenRequestError', status(400, `{"error":"x","error_description":"${SECRET}`)],
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
    await failAndSearch(task, logger, { client, made, error, texts: [], group, row })
  })
})

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const each = (write: (code: number) => string): string =>
  SECRET.replace(/\W/g, (char) => write(char.charCodeAt(0)))
const entities = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const SPELLINGS: [row: string, spelling: string][] = [
  ['as it is', SECRET],
  ['in JSON', JSON.stringify({ client_secret: SECRET })],
  ['in JSON, " as \\u0022', each((code) => `\\u${code.toString(16).padStart(4, '0')}`)],
  ['percent-encoded', encodeURIComponent(SECRET)],
  ['percent-encoded, in lower case', encodeURIComponent(SECRET).toLowerCase()],
  ['percent-encoded, in a URL', encodeURI(SECRET)],
  ['form-encoded', new URLSearchParams({ client_secret: SECRET }).toString()],
  ['base64', base64(SECRET)],
  ['base64 without =', base64(SECRET).replaceAll('=', '')],
  ['base64url', Buffer.from(SECRET).toString('base64url')],
  ['Basic header', `Basic ${base64(`${CLIENT_ID}:${SECRET}`)}`],
  ['HTML, " as &quot;', entities(SECRET)],
  ['HTML, " as &#34;', each((code) => `&#${code};`)],
  ['HTML, " as &#x22;', each((code) => `&#x${code.toString(16)};`)],
  ['HTML of JSON', entities(JSON.stringify({ client_secret: SECRET }))],
  ['across the end of what is shown', `${'x'.repeat(90)}${SECRET}${'x'.repeat(190)}${SECRET}`],
  // Spellings within others.
  ['Basic header, client id 1 longer', `Basic ${base64(`${CLIENT_ID}2:${SECRET}`)}`],
  ['Basic header, client id 2 longer', `Basic ${base64(`${CLIENT_ID}23:${SECRET}`)}`],
  ['base64 of the request', base64(JSON.stringify({ client_id: CLIENT_ID, client_secret: SECRET }))],
  ['percent-encoded twice', encodeURIComponent(encodeURIComponent(SECRET))],
  ['in JSON in JSON', JSON.stringify(JSON.stringify({ client_secret: SECRET }))],
]

describe('the secret echoed in error and error_description', () => {
  const group = 'how it is written'
  it.for(forEachClient(SPELLINGS))('%s: %s', async ([client, row, spelling], { task }) => {
    const made = echoRig(logger)
    made.endpoint.otherwise = status(401, {
      error: spelling,
      error_description: `the secret ${spelling} is wrong`,
    })
    const error = 'TokenRequestError'
    await failAndSearch(task, logger, { client, made, error, texts: [spelling], group, row })
  })
})
