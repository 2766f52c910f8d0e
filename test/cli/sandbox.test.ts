// `merchant-auth sandbox`: its variables, its settings, its ports, its log, and how it ends.
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { isWindows } from '../support/platform.ts'
import { call, echoOf, freePort, freshToken, listening, requestToken } from '../testing/calls.ts'
import { folder, namedUrls, run, sandbox, withPlaceholders } from './rig.ts'

describe('the variables of the sandbox command', () => {
  const PRINT = `JSON.stringify(Object.entries(process.env).filter(([name]) => name.startsWith('MERCHANT_AUTH_')).sort())`

  /** Runs the command, writes its variables to a file, and runs a program whose output they are in JSON. */
  async function printed(argsFor: (file: string) => [program: string, args: string[]]) {
    const { command, client, merchantUrl } = await sandbox(['--client', 'store-1:first-secret$'])
    const file = join(folder(), 'sandbox.env')
    writeFileSync(file, command.stdout())
    const { stdout } = await promisify(execFile)(...argsFor(file), { env: { PATH: process.env['PATH'] } })
    expect(JSON.parse(stdout)).toEqual([
      ['MERCHANT_AUTH_API_URLS', namedUrls(client.environment.apiUrls)],
      ['MERCHANT_AUTH_AUDIENCE', client.environment.audience],
      ['MERCHANT_AUTH_CLIENT_ID', 'store-1'],
      ['MERCHANT_AUTH_CLIENT_SECRET', 'first-secret$'],
      ['MERCHANT_AUTH_URL', client.environment.authUrl],
    ])
    return { file, merchantUrl }
  }

  it('work with node --env-file and with merchant-auth check', async () => {
    const { file, merchantUrl } = await printed((name) => [
      process.execPath,
      [`--env-file=${name}`, '--print', PRINT],
    ])
    const check = await run(['check', '--dotenv', file, '--call', `${merchantUrl}/orders`])
    expect(check).toMatchObject({ code: 0, stderr: '' })
  })

  it.skipIf(isWindows)('work in a shell (Windows has no sh)', async () => {
    await printed((name) => ['sh', ['-c', '. "$0" && exec "$1" --print "$2"', name, process.execPath, PRINT]])
  })
})

describe('a host other than a loopback host', () => {
  it('makes the variables allow http, and the command says what it opens', async () => {
    const { command, client } = await sandbox(['--host', '0.0.0.0'])
    const isReachable = !client.environment.authUrl.includes('127.0.0.1') // a machine without a network
    expect(command.stdout().includes('export MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS=true\n')).toBe(isReachable)
    expect(command.stderr().includes('Anyone who can reach this host can get tokens')).toBe(isReachable)
  })

  it('ends the command with exit code 3 if it is not one of this machine', async () => {
    const { code, stderr } = await run(['sandbox', '--host', 'nowhere.invalid'])
    expect(code).toBe(3)
    expect(stderr).toMatch(/^merchant-auth: --host cannot be listened on \([A-Z_]+\)\. /)
  })
})

describe('the clients of the sandbox command', () => {
  it('are those of --client; the variables are those of the first, and the log names each', async () => {
    const flags = '--client store-1:first-secret$ --client store-2:a:b=second-secret'.split(' ')
    const { client, merchantUrl, lines } = await sandbox(flags)
    expect(client).toMatchObject({ clientId: 'store-1', clientSecret: 'first-secret$' })
    const second = { ...client, clientId: 'store-2', clientSecret: 'a:b=second-secret' }
    await freshToken(client)
    await lines(1)
    const token = await freshToken(second)
    await lines(2)
    await call(merchantUrl, token)
    const logged = await lines(3)
    expect(logged.map((line) => withPlaceholders(line).replace(/^.*N ms {2}/, ''))).toEqual([
      'issued JTI, client store-1',
      'issued JTI, client store-2',
      'token JTI, client store-2',
    ])
  })

  it.each(['store-1', 'store-1:', ':HUNTER2', 'store-1:HUNTER2 x', 'a:HUNTER2"'])(
    'are rejected if the flag is not ID:SECRET, and the message has no secret: %s',
    async (client) => {
      const { code, stderr } = await run(['sandbox', '--client', client])
      expect(code).toBe(2)
      expect(stderr).toMatch(/^merchant-auth: --client must be ID:SECRET/)
      expect(stderr).not.toContain('HUNTER2')
    },
  )
})

describe('the settings of the sandbox command', () => {
  it.each(['test', 'production'])('apply to the %s environment', async (environment) => {
    const flags = `--lifetime-seconds 7 --reject-all-tokens=in-store --header-name X-Token --scheme= --environment ${environment}`
    const { client, merchantUrl, inStoreUrl } = await sandbox(flags.split(' '))
    const granted = (await (await requestToken(client)).json()) as Record<string, string | number>
    expect(client.environment.audience).toBe(`https://${environment}.sandbox.example`)
    expect(granted['expires_in']).toBe(7)
    const headers = { 'x-token': String(granted['access_token']) }
    const response = await fetch(merchantUrl, { headers })
    expect((await echoOf(response)).headers['x-token']).toMatch(/^\[token [\w-]+\]$/)
    expect((await fetch(inStoreUrl, { headers })).status).toBe(401)
  })

  it.each([
    ['--quota 1/h,50/d', expect.stringContaining('b=per_hour;q=1;r=0;')],
    ['--quota 1/h --quota-counts-refused --no-quota-headers', null],
  ])('limit token requests with %s', async (flags, header) => {
    const { client } = await sandbox(flags.split(' '))
    const responses = [await requestToken(client), await requestToken(client)]
    expect(responses.map(({ status }) => status)).toEqual([200, 429])
    expect(responses[1]?.headers.get('auth0-client-quota-limit')).toEqual(header)
  })

  it('give both APIs one base URL with --shared-api-url, and check works with it', async () => {
    const { command, merchantUrl, inStoreUrl } = await sandbox(['--shared-api-url'])
    expect(inStoreUrl).toBe(merchantUrl)
    const file = join(folder(), '.env')
    writeFileSync(file, command.stdout())
    const { code } = await run(['check', '--dotenv', file, '--call', `${inStoreUrl}/sales`])
    expect(code).toBe(0)
  })

  it.each([
    ['--token-path /o/token/ --token-endpoint-auth-method client_secret_basic', ''],
    ['--token-path /token', '--body-format form'],
  ])('stand for another token endpoint with %s, and check and token work with it', async (flags, more) => {
    const { command, merchantUrl } = await sandbox(flags.split(' '))
    const [, path = ''] = flags.split(' ')
    expect(command.stdout()).toContain(`MERCHANT_AUTH_TOKEN_PATH=${path}\n`)
    expect(command.stderr()).toContain(path)
    expect(command.stdout()).not.toContain('AUDIENCE')
    const file = join(folder(), '.env')
    writeFileSync(file, command.stdout())
    const args = ['--dotenv', file, ...more.split(' ').filter(Boolean)]
    const checked = await run(['check', ...args, '--call', `${merchantUrl}/orders`])
    expect(checked).toMatchObject({ code: 0, stdout: expect.stringMatching(/audience +\(none\)/) })
    expect(await run(['token', ...args])).toMatchObject({ code: 0, stderr: '' })
  })

  it('delay token requests and API calls, and make both APIs reject every token', async () => {
    const flags = '--token-latency-ms 40 --api-latency-ms 40 --reject-all-tokens'.split(' ')
    const { client, merchantUrl, inStoreUrl, lines } = await sandbox(flags)
    const token = await freshToken(client)
    for (const url of [merchantUrl, inStoreUrl]) expect((await call(url, token)).status).toBe(401)
    const logged = await lines(3)
    for (const line of logged) expect(Number(/(\d+) ms/.exec(line)?.[1])).toBeGreaterThanOrEqual(39)
    expect(withPlaceholders(logged[1] ?? '')).toMatch(/token JTI, invalid_token: /)
  })
})

describe('the ports of the sandbox command', () => {
  it('are set by the flags', async () => {
    const [port, productionPort] = [await freePort(), await freePort()]
    const flags = ['--port', String(port), '--production-port', String(productionPort)]
    const { client, productionUrl } = await sandbox(flags)
    expect(client.environment.authUrl).toBe(`http://127.0.0.1:${port}`)
    expect(productionUrl).toBe(`http://127.0.0.1:${productionPort}/merchant`)
  })

  it.each(['--port', '--production-port'])(
    'end the command with exit code 3 if %s is in use',
    async (flag) => {
      const { code, stdout, stderr } = await run(['sandbox', flag, `${await listening(createServer())}`])
      expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
      expect(stderr).toMatch(new RegExp(`^merchant-auth: ${flag} [^\n]*EADDRINUSE[^\n]*\n$`))
    },
  )
})

describe('the log of the sandbox command', () => {
  it('shows the URLs, and then each request, with the name of another environment', async () => {
    const { command, client, merchantUrl, inStoreUrl, productionUrl, lines } = await sandbox()
    const token = await freshToken(client)
    await lines(1)
    await call(`${merchantUrl}/orders?page=2`, token)
    await lines(2)
    await call(inStoreUrl, undefined, { method: 'DELETE' })
    await lines(3)
    await requestToken(client, { fields: { client_id: 'x' } })
    await lines(4)
    await fetch(`${client.environment.authUrl}/nowhere`)
    await lines(5)
    await call(productionUrl, undefined)
    await lines(6)
    expect(withPlaceholders(command.stderr())).toBe(`The sandbox is running. Press Ctrl-C to end it.

  test        token     http://127.0.0.1:PORT/oauth/token
              merchant  http://127.0.0.1:PORT/merchant
              in-store  http://127.0.0.1:PORT/in-store
  production  token     http://127.0.0.1:PORT/oauth/token
              merchant  http://127.0.0.1:PORT/merchant
              in-store  http://127.0.0.1:PORT/in-store

Write the variables to a file, and use them in another terminal:
  npx merchant-auth sandbox > .env
  node --env-file=.env app.mjs
  npx merchant-auth check --dotenv .env

HH:MM:SS.mmm  POST    /oauth/token      200  N ms  issued JTI
HH:MM:SS.mmm  GET     /merchant/orders?page=2  200  N ms  token JTI
HH:MM:SS.mmm  DELETE  /in-store         401  N ms  no token
HH:MM:SS.mmm  POST    /oauth/token      400  N ms  invalid_request: client_secret is missing
HH:MM:SS.mmm  GET     /nowhere          404  N ms  not_found
HH:MM:SS.mmm  production  GET     /merchant         401  N ms  no token
`)
    expect(command.stderr()).not.toContain(client.clientSecret)
    expect(command.stderr()).not.toContain(token)
  })

  it('is JSON lines with --json', async () => {
    const flags = ['--json', '--fault', 'in-store:status=418', '--fault', 'merchant:text=x']
    const { command, client, merchantUrl, inStoreUrl, lines } = await sandbox(flags)
    const token = await freshToken(client)
    await lines(1, /^\{/)
    await call(`${merchantUrl}/%C2%9B`, token)
    await lines(2, /^\{/)
    await call(inStoreUrl, undefined)
    const printed = await lines(3, /./)
    const { jti } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
    const common = {
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      environment: 'test',
      durationMs: expect.any(Number),
    }
    const issued = { target: 'token', method: 'POST', path: '/oauth/token' }
    const merchant = { target: 'merchant', method: 'GET', path: '/merchant/%C2%9B' }
    const inStore = { target: 'in-store', method: 'GET', path: '/in-store' }
    expect(printed.map((line) => JSON.parse(line))).toEqual([
      { ...common, id: 1, ...issued, status: 200, clientId: 'test-client', jti },
      { ...common, id: 2, ...merchant, status: 200, clientId: 'test-client', jti, fault: 'text=x' },
      { ...common, id: 3, ...inStore, status: 418, fault: 'status=418' },
    ])
    expect(command.stderr()).toBe(`${printed.join('\n')}\n`)
  })
})

describe('the sandbox command', () => {
  it('logs pending requests, frees its ports when its signal aborts', async () => {
    const { command, merchantUrl, productionUrl, lines } = await sandbox(['--fault', 'merchant:hang,at=body'])
    const hanging = (await call(merchantUrl, undefined)).text()
    const broken = expect(hanging).rejects.toThrow()
    command.interrupt()
    expect((await command).code).toBe(0)
    await broken
    expect((await lines(1)).map(withPlaceholders)).toEqual([
      'HH:MM:SS.mmm  GET     /merchant         401  N ms  no token, fault hang,at=body',
    ])
    await expect(fetch(merchantUrl)).rejects.toHaveProperty('cause.code', 'ECONNREFUSED')
    await expect(fetch(productionUrl)).rejects.toHaveProperty('cause.code', 'ECONNREFUSED')
  })
})
