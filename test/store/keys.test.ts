// The keys of a store: clients whose token requests differ never share an entry.
import { createTokenProvider, type TokenProviderOptions } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { ENVIRONMENT_OPTIONS, PROVIDER_OPTIONS } from '../support/option-names.ts'
import { problemsOf } from '../support/problems.ts'
import { acquired, ENVIRONMENT, rig, ScriptedEndpoint, SECRET } from '../token/harness.ts'
import { MemoryStore } from './memory-store.ts'

/** The instruments of the test, and how the client proves its identity: it is the same client. */
const FIXED = [
  ...['environment', 'fetch', 'clock', 'store'],
  ...['clientSecret', 'clientAssertion', 'tokenEndpointAuthMethod'],
]

/** Every option that can differ between two clients, `environment.audience` and so on included. */
const OPTIONS = [...PROVIDER_OPTIONS, ...ENVIRONMENT_OPTIONS.map((name) => `environment.${name}`)].filter(
  (name) => !FIXED.includes(name),
)

/** Values of many types. An option is tried with those that it accepts, which must be two at least. */
const VALUES: readonly unknown[] = [
  ...['one', 'two', 'https://one.example', 'https://two.example', 'json', 'form', '/one', '/two'],
  ...[1, 2, true, false, () => 'one', () => 'two'],
  ...[{ one: '1' }, { one: '2' }, { two: '1' }],
  ...[['https://one.example'], ['https://two.example'], { one: 'https://one.example' }],
]

/** The options of a client that differ in one of them. */
function optionsWith(name: string, value: unknown): TokenProviderOptions {
  const [first, second] = name.split('.')
  const changed =
    second === undefined ? { [String(first)]: value } : { environment: { ...ENVIRONMENT, [second]: value } }
  return {
    environment: ENVIRONMENT,
    clientId: 'client-1',
    clientSecret: SECRET,
    ...changed,
  } as TokenProviderOptions
}

/** The key of the entry that a client writes, and its token request, without the credential and its encoding. */
async function keyAndRequest(options: TokenProviderOptions): Promise<{ key: string; request: unknown }> {
  const { clock } = rig()
  const endpoint = new ScriptedEndpoint([])
  const store = new MemoryStore(clock)
  const provider = createTokenProvider({ ...options, clock, store, fetch: endpoint.fetch })
  await acquired({ provider, clock })
  await provider.close()
  const [{ url, init } = { url: '', init: {} }] = endpoint.requests
  const { body, headers, signal: _, ...rest } = init
  const fields = String(body).startsWith('{')
    ? JSON.parse(String(body))
    : Object.fromEntries(new URLSearchParams(String(body)))
  const { client_secret: __, ...identity } = fields
  const { 'content-type': ___, ...otherHeaders } = Object.fromEntries(new Headers(headers))
  const [written] = store.asked.filter(({ operation }) => operation === 'set')
  return { key: String(written?.key), request: { url, ...rest, headers: otherHeaders, fields: identity } }
}

describe('two clients that differ in one option', () => {
  it.each(OPTIONS)('share no entry if their token requests differ: %s', async (name) => {
    const accepted = VALUES.filter(
      (value) => problemsOf(() => createTokenProvider(optionsWith(name, value))).length === 0,
    )
    expect(accepted.length, `VALUES that ${name} accepts: add two`).toBeGreaterThanOrEqual(2)
    const clients = await Promise.all(accepted.map((value) => keyAndRequest(optionsWith(name, value))))
    for (const one of clients)
      for (const other of clients) if (one.key === other.key) expect(one.request).toEqual(other.request)
  })
})
