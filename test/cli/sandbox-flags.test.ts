// The flags of `merchant-auth sandbox`: settings that hold, ports, what is refused, and the help.
import { createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { sandboxCommand } from '../../src/cli/sandbox.ts'
import { call, echoOf, freshToken, requestToken } from '../testing/calls.ts'
import { constant, run, start } from './sandbox-rig.ts'

describe('the settings', () => {
  it.each(['test', 'production'])('hold in %s', async (environment) => {
    const flags = [
      '--lifetime-seconds',
      '7',
      '--reject-all-tokens=in-store',
      '--header-name',
      'X-Token',
      '--scheme=',
    ]
    const { client, merchantUrl, inStoreUrl } = await start([...flags, '--environment', environment])
    const granted = (await (await requestToken(client)).json()) as {
      access_token: string
      expires_in: number
    }
    expect(granted.expires_in).toBe(7)
    const headers = { 'x-token': granted.access_token }
    const response = await fetch(merchantUrl, { headers })
    expect((await echoOf(response)).headers['x-token']).toMatch(/^\[token [\w-]+\]$/)
    expect((await fetch(inStoreUrl, { headers })).status).toBe(401)
  })

  it.each([
    ['--token-latency-ms', 'token'],
    ['--api-latency-ms', 'merchant'],
  ])('%s lets %s wait', async (flag, target) => {
    const sandbox = await start([flag, '40'])
    await call(sandbox.merchantUrl, await freshToken(sandbox.client))
    const lines = await sandbox.lines(2)
    const waited = lines.filter((line) => Number(/(\d+) ms/.exec(line)?.[1]) >= 39)
    expect(waited.some((line) => line.includes(`  ${target}  `))).toBe(true)
  })

  it('--reject-all-tokens holds for both APIs', async () => {
    const sandbox = await start(['--reject-all-tokens'])
    const token = await freshToken(sandbox.client)
    expect((await call(sandbox.merchantUrl, token)).status).toBe(401)
    expect((await call(sandbox.inStoreUrl, token)).status).toBe(401)
    const [, line = ''] = await sandbox.lines(3)
    expect(constant(line)).toMatch(/token JTI, invalid_token: The API rejects every token at the moment$/)
  })
})

describe('the ports', () => {
  it('are those of the flags', async () => {
    const [port, productionPort] = [await freePort(), await freePort()]
    const { client, productionUrl } = await start([
      '--port',
      String(port),
      '--production-port',
      String(productionPort),
    ])
    expect(client.environment.authUrl).toBe(`http://127.0.0.1:${port}`)
    expect(productionUrl).toBe(`http://127.0.0.1:${productionPort}/merchant`)
  })

  it.each([
    ['--port', '--production-port'],
    ['--production-port', '--port'],
  ])('%s in use: exit code 3, and the flag by its name', async (taken, other) => {
    await using server = createServer()
    const port = await listening(server)
    const free = await freePort()
    const one = run([taken, String(port), other, String(free)])
    expect(await one.ended).toBe(3)
    expect(one.stdout()).toBe('')
    expect(one.stderr()).toBe(
      `merchant-auth: ${taken} cannot be listened on (EADDRINUSE). Take another port, or 0 for a free one.\n`,
    )
    await expect(fetch(`http://127.0.0.1:${free}`)).rejects.toHaveProperty('cause.code', 'ECONNREFUSED')
  })

  it('must not be the same: exit code 3', async () => {
    const port = String(await freePort())
    const one = run(['--port', port, '--production-port', port])
    expect(await one.ended).toBe(3)
    expect(one.stderr()).toBe('merchant-auth: --port is the port of production too.\n')
  })
})

describe('the command line', () => {
  it.each([
    [['--environment', 'staging'], '--environment must be test or production.'],
    [['--port', '65536'], '--port must be a whole number from 0 to 65535.'],
    [['--production-port', '1.5'], '--production-port must be a whole number from 0 to 65535.'],
    [['--lifetime-seconds', '0'], '--lifetime-seconds must be a whole number from 1 to 2147483647.'],
    [['--token-latency-ms', '2147483648'], '--token-latency-ms must be a whole number from 0 to 2147483647.'],
    [['--api-latency-ms', 'soon'], '--api-latency-ms must be a whole number from 0 to 2147483647.'],
    [['--reject-all-tokens=both'], '--reject-all-tokens takes no value, or =merchant or =in-store.'],
    [['--reject-all-tokens='], '--reject-all-tokens takes no value, or =merchant or =in-store.'],
    [
      ['--reject-all-tokens', 'merchant'],
      'The value of --reject-all-tokens stands behind =, as in --reject-all-tokens=merchant.',
    ],
    [['--reject-all-tokens', '--reject-all-tokens'], '--reject-all-tokens is there twice.'],
    [
      ['--header-name', 'a b'],
      '--header-name must be the name of a header that can carry the token (RFC 9110 §5.1).',
    ],
    [['--scheme', 'a b'], "--scheme must be an authentication scheme (RFC 9110 §11.1), or ''."],
    [['--json=yes'], '--json takes no value.'],
    [['--ports', '1'], 'There is no flag --ports.'],
  ])('refuses %j before it starts', async (args, message) => {
    const one = run(args)
    await expect(one.ended).rejects.toMatchObject({ name: 'UsageError', message })
    expect(one.stdout() + one.stderr()).toBe('')
  })

  it('has a help of at most 100 columns with every flag and every kind of fault', () => {
    const lines = sandboxCommand.help.split('\n')
    expect(lines.filter((line) => line.length > 100)).toEqual([])
    const flags = [
      'port',
      'production-port',
      'environment',
      'lifetime-seconds',
      'token-latency-ms',
      'api-latency-ms',
    ]
    for (const flag of [...flags, 'reject-all-tokens', 'header-name', 'scheme', 'fault', 'json']) {
      expect(lines.some((line) => line.startsWith(`  --${flag} `))).toBe(true)
    }
    const kinds = [
      'status',
      'hang',
      'reset',
      'redirect',
      'text',
      'json',
      'slow-body',
      'truncated-body',
      'huge-body',
    ]
    for (const kind of kinds) {
      expect(lines.some((line) => new RegExp(`^ {2}${kind}(=| )`).test(line))).toBe(true)
    }
  })
})

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  await using server = createServer()
  return await listening(server)
}

function listening(server: ReturnType<typeof createServer>): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port))
  })
}
