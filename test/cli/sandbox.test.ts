// `merchant-auth sandbox` from its start to its end: what it prints, how it is used, and that nothing is left of it.
import { execFile } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { call, freshToken, requestToken } from '../testing/calls.ts'
import { run as runCommand } from './rig.ts'
import { constant, run, start } from './sandbox-rig.ts'

describe('the variables', () => {
  it('are those of test, on stdout, and nothing else is', async () => {
    const { stdout } = await start()
    expect(constant(stdout())).toBe(`export MERCHANT_AUTH_URL=http://127.0.0.1:PORT
export MERCHANT_AUTH_AUDIENCE=https://test.sandbox.example
export MERCHANT_AUTH_API_URLS=http://127.0.0.1:PORT/merchant,http://127.0.0.1:PORT/in-store
export MERCHANT_AUTH_CLIENT_ID=test-client
export MERCHANT_AUTH_CLIENT_SECRET=test-secret-HEX
`)
  })

  it('have no sign that a shell or node --env-file reads in its own way', async () => {
    const { stdout } = await start()
    const values = stdout()
      .trim()
      .split('\n')
      .map((line) => line.replace(/^export \w+=/, ''))
    expect(values).toHaveLength(5)
    for (const value of values) expect(value).toMatch(/^[\w:/.,-]+$/)
  })

  it('are those of production where it was chosen', async () => {
    const { stdout, client, merchantUrl } = await start(['--environment', 'production'])
    expect(stdout()).toContain('AUDIENCE=https://production.sandbox.example\n')
    expect((await call(merchantUrl, await freshToken(client))).status).toBe(200)
  })

  describe('in a file', () => {
    let folder: string
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'merchant-auth-'))
    })
    afterEach(() => rm(folder, { recursive: true }))

    const PRINT = `JSON.stringify(Object.entries(process.env).filter(([name]) => name.startsWith('MERCHANT_AUTH_')).sort())`

    it('serve a shell, node --env-file and merchant-auth check alike', async () => {
      const { stdout, client, merchantUrl } = await start()
      const file = join(folder, 'sandbox.env')
      await writeFile(file, stdout())
      const options = { env: { PATH: process.env['PATH'] } }
      const execute = promisify(execFile)
      const [byNode, byShell] = await Promise.all([
        execute(process.execPath, [`--env-file=${file}`, '--print', PRINT], options),
        execute('sh', ['-c', `. "$0" && exec "$1" --print "$2"`, file, process.execPath, PRINT], options),
      ])
      expect(JSON.parse(byNode.stdout)).toEqual([
        ['MERCHANT_AUTH_API_URLS', client.environment.apiUrls.join(',')],
        ['MERCHANT_AUTH_AUDIENCE', client.environment.audience],
        ['MERCHANT_AUTH_CLIENT_ID', client.clientId],
        ['MERCHANT_AUTH_CLIENT_SECRET', client.clientSecret],
        ['MERCHANT_AUTH_URL', client.environment.authUrl],
      ])
      expect(byShell.stdout).toBe(byNode.stdout)
      const check = await runCommand(['check', '--dotenv', file, '--call', `${merchantUrl}/orders`])
      expect(check.stderr).toBe('')
      expect(check.code).toBe(0)
    })
  })
})

describe('what people see', () => {
  it('is where everything is, and then each request', async () => {
    const sandbox = await start()
    const { client, merchantUrl, inStoreUrl } = sandbox
    const token = await freshToken(client)
    await sandbox.lines(1)
    await call(`${merchantUrl}/orders?page=2`, token)
    await sandbox.lines(2)
    await call(inStoreUrl, undefined, { method: 'DELETE' })
    await sandbox.lines(3)
    await call(`${inStoreUrl}/a/path/that/is/longer`, token)
    await sandbox.lines(4)
    await requestToken(client, { fields: { client_id: 'x' } })
    await sandbox.lines(5)
    await fetch(`${client.environment.authUrl}/nowhere`)
    await sandbox.lines(6)
    expect(constant(sandbox.stderr())).toBe(`The sandbox is running. Ctrl-C ends it.

  test        token endpoint  http://127.0.0.1:PORT/oauth/token
              merchant API    http://127.0.0.1:PORT/merchant
              in-store API    http://127.0.0.1:PORT/in-store
  production  token endpoint  http://127.0.0.1:PORT/oauth/token
              merchant API    http://127.0.0.1:PORT/merchant
              in-store API    http://127.0.0.1:PORT/in-store

With the variables on stdout, which are for test:
  curl -H "Authorization: Bearer $(merchant-auth token)" http://127.0.0.1:PORT/merchant/orders

HH:MM:SS.mmm  token     POST    /oauth/token              200  N ms   token JTI issued
HH:MM:SS.mmm  merchant  GET     /merchant/orders?page=2   200  N ms   token JTI
HH:MM:SS.mmm  in-store  DELETE  /in-store                 401  N ms   no token
HH:MM:SS.mmm  in-store  GET     /in-store/a/path/that/is/longer  200  N ms   token JTI
HH:MM:SS.mmm  token     POST    /oauth/token                     400  N ms   invalid_request: client_secret is missing
HH:MM:SS.mmm  -         GET     /nowhere                         404  N ms   not_found
`)
    expect(sandbox.stderr()).not.toContain(client.clientSecret)
    expect(sandbox.stderr()).not.toContain(token)
  })

  it('has the faults of the flags, and where the token goes', async () => {
    const flags = [
      '--fault',
      'token:status=503,times=1',
      '--fault',
      'token:hang,times=2',
      '--fault',
      'merchant:reset',
    ]
    const { stderr } = await start([...flags, '--header-name', 'X-`Token$', '--scheme', ''])
    expect(constant(stderr())).toContain(`
  curl -H "X-\\\`Token\\$: $(merchant-auth token)" http://127.0.0.1:PORT/merchant/orders

Faults
  token       status=503 (1 time)
  token       hang (2 times)
  merchant    reset

`)
  })

  it('names the environments as soon as both are used', async () => {
    const sandbox = await start()
    await call(sandbox.merchantUrl, undefined)
    await sandbox.lines(1)
    await call(sandbox.productionUrl, undefined)
    await sandbox.lines(2)
    await call(sandbox.merchantUrl, undefined)
    expect((await sandbox.lines(3)).map(constant)).toEqual([
      'HH:MM:SS.mmm  merchant  GET     /merchant                 401  N ms   no token',
      'HH:MM:SS.mmm  production  merchant  GET     /merchant                 401  N ms   no token',
      'HH:MM:SS.mmm  test        merchant  GET     /merchant                 401  N ms   no token',
    ])
  })
})

describe('--json', () => {
  it('prints each request as a JSON line on stderr, and nothing else there', async () => {
    const sandbox = await start(['--json', '--fault', 'in-store:status=418'])
    const token = await freshToken(sandbox.client)
    await sandbox.lines(1, /^\{/)
    await call(`${sandbox.merchantUrl}/%C2%9B`, token)
    await sandbox.lines(2, /^\{/)
    await call(`${sandbox.inStoreUrl}`, undefined)
    await sandbox.lines(3, /^\{/)
    await requestToken(sandbox.client, { fields: 5 })
    await sandbox.lines(4, /^\{/)
    const { jti } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
    const common = {
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      environment: 'test',
      durationMs: expect.any(Number),
    }
    const printed = sandbox
      .stderr()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(printed).toEqual([
      { ...common, id: 1, target: 'token', method: 'POST', path: '/oauth/token', status: 200, jti },
      { ...common, id: 2, target: 'merchant', method: 'GET', path: '/merchant/%C2%9B', status: 200, jti },
      {
        ...common,
        id: 3,
        target: 'in-store',
        method: 'GET',
        path: '/in-store',
        status: 418,
        fault: 'status=418',
      },
      {
        ...common,
        id: 4,
        target: 'token',
        method: 'POST',
        path: '/oauth/token',
        status: 400,
        error: 'invalid_request',
        errorDescription: 'The body must be a JSON object',
      },
    ])
    expect(sandbox.client.clientId).toBe('test-client')
  })
})

describe('the end', () => {
  it('comes by the signal: requests under way are told, ports are free, nobody listens any more', async () => {
    const sandbox = await start(['--fault', 'merchant:hang,at=body'])
    const hanging = (await call(sandbox.merchantUrl, undefined)).text()
    const broken = expect(hanging).rejects.toThrow()
    expect(getEventListeners(sandbox.stop.signal, 'abort')).toHaveLength(1)
    sandbox.stop.abort('SIGINT')
    expect(await sandbox.ended).toBe(0)
    await broken
    expect((await sandbox.lines(1)).map(constant)).toEqual([
      'HH:MM:SS.mmm  merchant  GET     /merchant                 401  N ms   no token, fault hang,at=body',
    ])
    expect(getEventListeners(sandbox.stop.signal, 'abort')).toHaveLength(0)
    await expect(fetch(sandbox.merchantUrl)).rejects.toHaveProperty('cause.code', 'ECONNREFUSED')
    await expect(fetch(sandbox.productionUrl)).rejects.toHaveProperty('cause.code', 'ECONNREFUSED')
  })

  it('comes at once where the signal was there before', async () => {
    const one = run([])
    one.stop.abort()
    expect(await one.ended).toBe(0)
    expect(getEventListeners(one.stop.signal, 'abort')).toHaveLength(0)
    const [, url = ''] = /URL=(\S+)/.exec(one.stdout()) ?? []
    await expect(fetch(url)).rejects.toHaveProperty('cause.code', 'ECONNREFUSED')
  })
})
