/**
 * Token endpoints of other software, by options alone: with the library, with variables, with the command. And where none is
 * set: each refusal leads to the option that helps.
 */
import { spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import {
  createAuthFetch,
  createTokenProvider,
  optionsFromEnv,
  type TokenProviderOptions,
} from 'merchant-auth'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Listening } from '../attach/world.ts'
import { folder, run } from '../cli/rig.ts'
import { kindsIn } from '../support/failures.ts'
import { findLeaks } from '../support/leaks.ts'
import { noteSecret } from '../support/recorded.ts'
import { rejection } from '../token/harness.ts'
import { type Choices, startRfc6749 } from './endpoints/rfc6749.ts'

type AuthMethod = NonNullable<TokenProviderOptions['tokenEndpointAuthMethod']>

interface Server {
  readonly name: string
  readonly start: (secret: string) => Promise<Listening>
  readonly tokenPath: string
  readonly secret: string
  readonly authMethods: readonly AuthMethod[]
  /** The `resource` (RFC 8707), where tokens need one. */
  readonly resource?: true
  /** Where it has no `expires_in`. */
  readonly lifetimeIfMissingMs?: number
  /** The refusals that a user meets who sets none of the options, until a token comes. */
  readonly refusals: readonly string[]
}

/** The id of a client, which ends in the method that is registered for it. */
const clientId = (method: AuthMethod): string => `shop:1+1 %41 ${method}`
const CLIENTS = (['client_secret_basic', 'client_secret_post'] as const).map(clientId)
/** Characters that HTTP Basic and forms write each in their own way. */
const SECRET = `hush: 100%41+"${randomUUID()}"&=`

const DJANGO = 'Django OAuth Toolkit'
const PYTHON = '/usr/bin/python3'
const hasDjango = spawnSync(PYTHON, ['-c', 'import oauth2_provider']).status === 0
if (!hasDjango)
  console.warn(
    `${DJANGO} is not installed: its tests are skipped. To get it: apt-get install python3-django-oauth-toolkit`,
  )

const LETTER: Choices = {
  notAForm: 400,
  challenges: 'where-it-must',
  refusesAudience: false,
  granted: { token_type: 'bearer', expires_in: 3600 },
}

const rfc6749 = (choices: Choices) => ({
  start: (secret: string) => startRfc6749({ id: clientId('client_secret_basic'), secret }, choices),
  tokenPath: '/token',
  secret: `${SECRET}é|€`, // more than appendix A allows, but §2.3.1 encodes it
  authMethods: ['client_secret_basic'] as const,
})

const SERVERS: readonly Server[] = [
  {
    name: 'oidc-provider',
    start: (secret) => program([process.execPath, 'oidc-provider.mjs', secret, ...CLIENTS]),
    tokenPath: '/token',
    secret: SECRET,
    authMethods: ['client_secret_basic', 'client_secret_post'],
    resource: true,
    refusals: ['no-endpoint', 'format'],
  },
  {
    name: DJANGO,
    start: (secret) => program([PYTHON, 'oauth_toolkit.py', secret, ...CLIENTS]),
    tokenPath: '/o/token/',
    secret: SECRET,
    authMethods: ['client_secret_basic', 'client_secret_post'],
    refusals: ['no-endpoint', 'redirect-here', 'grant-type'],
  },
  {
    name: 'a server to the letter of RFC 6749',
    ...rfc6749(LETTER),
    refusals: ['no-endpoint', 'format', 'client'],
  },
  {
    name: 'a server that leaves out what it may, and more',
    ...rfc6749({ notAForm: 415, challenges: 'always', refusesAudience: true, granted: {} }),
    lifetimeIfMissingMs: 3_600_000,
    refusals: ['no-endpoint', 'format', 'basic', 'audience', 'no-lifetime'],
  },
]

/** Starts a program of this folder, which prints its URL, and ends with its stdin. */
async function program([command = '', file = '', ...args]: readonly string[]): Promise<Listening> {
  const path = fileURLToPath(new URL(`endpoints/${file}`, import.meta.url))
  const child = spawn(command, [path, ...args], { stdio: ['pipe', 'pipe', 'pipe'] })
  const ended = once(child, 'close')
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const lines = createInterface(child.stdout)
  const [url] = await Promise.race([once(lines, 'line'), ended.then(() => [])])
  if (url === undefined) throw new Error(`${file} did not start: ${errors}`)
  return {
    url,
    [Symbol.asyncDispose]: async () => {
      child.stdin.end()
      await ended
    },
  }
}

/** The variables, and the flags for the same; the secret is in a file there. */
const FLAGS: Readonly<Record<string, string>> = {
  MERCHANT_AUTH_URL: '--auth-url',
  MERCHANT_AUTH_TOKEN_PATH: '--token-path',
  MERCHANT_AUTH_API_URLS: '--api-url',
  MERCHANT_AUTH_CLIENT_ID: '--client-id',
  MERCHANT_AUTH_CLIENT_SECRET: '--client-secret-file',
  MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD: '--token-endpoint-auth-method',
  MERCHANT_AUTH_BODY_FORMAT: '--body-format',
  MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS: '--lifetime-if-missing-seconds',
  MERCHANT_AUTH_TOKEN_PARAMETERS: '--token-parameter',
}

function flagsFor(variables: Readonly<Record<string, string>>): string[] {
  const file = join(folder(), 'secret')
  return Object.entries(variables).flatMap(([variable, value]) => {
    const flag = FLAGS[variable] ?? ''
    if (flag !== '--client-secret-file') return [flag, value]
    writeFileSync(file, value)
    return [flag, file]
  })
}

/** What a refusal must name, as an error and as `check` write it, and what its reader then sets. */
type Help = readonly [option: string, variable: string, value?: string]

const FORM: Help = ["bodyFormat: 'form'", 'MERCHANT_AUTH_BODY_FORMAT', 'form']
const BASIC: Help = [
  "tokenEndpointAuthMethod: 'client_secret_basic'",
  'MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD',
  'client_secret_basic',
]
const tokenPathHelp = (path: string): Help => ['environment.tokenPath', 'MERCHANT_AUTH_TOKEN_PATH', path]
const HELP: Readonly<Record<string, Help>> = {
  format: FORM,
  'grant-type': FORM,
  client: BASIC,
  basic: BASIC,
  audience: ['leave it out', 'MERCHANT_AUTH_AUDIENCE'],
  'no-lifetime': ['lifetimeIfMissingMs', 'MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS', '3600'],
}

const installed = SERVERS.filter(({ name }) => hasDjango || name !== DJANGO)
describe.for(installed)('$name', (server) => {
  const { secret, tokenPath, lifetimeIfMissingMs } = server
  let listens: Listening
  beforeAll(async () => {
    listens = await server.start(secret)
  })
  afterAll(() => listens[Symbol.asyncDispose]())

  const apiUrl = () => `${listens.url}/api`
  const ordersUrl = () => `${apiUrl()}/orders`
  const variablesFor = (method: AuthMethod) => ({
    MERCHANT_AUTH_URL: listens.url,
    MERCHANT_AUTH_TOKEN_PATH: tokenPath,
    MERCHANT_AUTH_API_URLS: `merchant=${apiUrl()}`,
    MERCHANT_AUTH_CLIENT_ID: clientId(method),
    MERCHANT_AUTH_CLIENT_SECRET: secret,
    MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD: method,
    MERCHANT_AUTH_BODY_FORMAT: 'form',
    ...(lifetimeIfMissingMs && {
      MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS: String(lifetimeIfMissingMs / 1000),
    }),
    ...(server.resource && { MERCHANT_AUTH_TOKEN_PARAMETERS: `resource=${apiUrl()}` }),
  })
  const statusWith = async (options: TokenProviderOptions): Promise<number> => {
    const authFetch = createAuthFetch(createTokenProvider(options))
    return (await authFetch(ordersUrl())).status
  }

  describe.for(server.authMethods)('with %s', (method) => {
    it('options', async () => {
      const status = await statusWith({
        environment: { authUrl: listens.url, tokenPath, apiUrls: { merchant: apiUrl() } },
        clientId: clientId(method),
        clientSecret: secret,
        tokenEndpointAuthMethod: method,
        bodyFormat: 'form',
        lifetimeIfMissingMs,
        ...(server.resource && { tokenParameters: { resource: apiUrl() } }),
      })
      expect(status).toBe(200)
    })

    it('variables alone', async () => {
      expect(await statusWith(optionsFromEnv(variablesFor(method)))).toBe(200)
    })

    it.for(['variables', 'flags'])('the command with %s', async (by) => {
      const variables = variablesFor(method)
      noteSecret(secret)
      const [args, env] = by === 'flags' ? [flagsFor(variables), {}] : [[], variables]
      expect(await run(['check', '--call', ordersUrl(), ...args], env)).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/sent as +form, \S+\n +audience +\(none\)\n.*GET \S+ returned 200 /s),
        stderr: '',
      })
      const { code, stdout, stderr } = await run(['token', ...args], env)
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      const headers = { authorization: `Bearer ${stdout.trim()}` }
      expect((await fetch(ordersUrl(), { headers })).status).toBe(200)
    })
  })

  it('a user who sets none of the options gets a token by what each refusal says', async () => {
    const variables: Record<string, string | undefined> = {
      MERCHANT_AUTH_URL: listens.url,
      MERCHANT_AUTH_AUDIENCE: apiUrl(),
      MERCHANT_AUTH_API_URLS: `merchant=${apiUrl()}`,
      MERCHANT_AUTH_CLIENT_ID: clientId('client_secret_basic'),
      MERCHANT_AUTH_CLIENT_SECRET: secret,
    }
    const help: Readonly<Record<string, Help>> = {
      ...HELP,
      'no-endpoint': tokenPathHelp(tokenPath.replace(/\/$/, '')), // as most are written
      'redirect-here': tokenPathHelp(tokenPath),
    }
    for (const kind of server.refusals) {
      const [option = '', variable = '', value] = help[kind] ?? []
      const { message } = await rejection(createTokenProvider(optionsFromEnv(variables)).getToken())
      const { stdout } = await run(['check'], variables)
      expect([kindsIn(message), kindsIn(stdout)]).toEqual([[kind], [kind]])
      expect(message).toContain(option)
      expect(stdout).toContain(variable)
      variables[variable] = value
    }
    await createTokenProvider(optionsFromEnv(variables)).getToken()
    expect(await run(['check'], variables)).toMatchObject({ code: 0 })
  })
})

it('a rejected secret that the server repeats is shown in no form', async () => {
  await using listens = await startRfc6749({ id: 'other', secret: 'other' }, LETTER)
  const [id, secret] = [clientId('client_secret_basic'), `${SECRET}é|€`]
  const variables = {
    MERCHANT_AUTH_URL: listens.url,
    MERCHANT_AUTH_TOKEN_PATH: '/token',
    MERCHANT_AUTH_API_URLS: `merchant=${listens.url}/api`,
    MERCHANT_AUTH_CLIENT_ID: id,
    MERCHANT_AUTH_CLIENT_SECRET: secret,
    MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD: 'client_secret_basic',
    MERCHANT_AUTH_BODY_FORMAT: 'form',
  }
  const events: unknown[] = []
  const onEvent = (event: unknown) => events.push(event)
  const error = await rejection(createTokenProvider({ ...optionsFromEnv(variables), onEvent }).getToken())
  expect(error).toMatchObject({
    error: 'invalid_client',
    errorDescription: expect.stringContaining('[hidden]'),
  })
  const outputs = [await run(['check'], variables), await run(['token'], variables)]
  expect(outputs).toMatchObject([{ code: 5 }, { code: 5 }])
  const encoded = (text: string) => String(new URLSearchParams({ '': text })).slice(1)
  const basic = btoa(`${encoded(id)}:${encoded(secret)}`)
  const forms = [secret, encoded(secret), basic, basic.slice(0, -4), basic.slice(-40)]
  expect([error, events, outputs].flatMap((output) => findLeaks(output, forms))).toEqual([])
})
