/**
 * The commands of compose/compose.yaml, as processes on loopback instead of containers: two instances of the service share
 * one token. Needs redis-server.
 */
import assert from 'node:assert/strict'
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { hasRedis } from './recipes/support/redis.ts'

const FOLDER = new URL('compose/', import.meta.url)
const PROGRAM = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))

type Process = ChildProcessByStdio<null, Readable, Readable>

/** What the file says of a service. */
interface Service {
  readonly command: readonly string[]
  readonly environment: Readonly<Record<string, string>>
}

/** The file has one service after the other, commands as lists, and variables one to a line. */
function readService(name: string): Service {
  const text = readFileSync(new URL('compose.yaml', FOLDER), 'utf8')
  const [, block = ''] = new RegExp(`^  ${name}:\n((?: {4}.*\n)+)`, 'm').exec(text) ?? []
  const [, command = ''] = /^ {4}command: (\[.*\])$/m.exec(block) ?? []
  const variables = [...block.matchAll(/^ {6}(\w+): "?(.*?)"?$/gm)]
  return {
    command: JSON.parse(command),
    environment: Object.fromEntries(variables.map(([, variable = '', value = '']) => [variable, value])),
  }
}

async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return String(port)
}

const running: Process[] = []

function start([program = '', ...args]: readonly string[], env: NodeJS.ProcessEnv = {}): Process {
  const cwd = program === 'redis-server' ? tmpdir() : fileURLToPath(FOLDER)
  const stdio = ['ignore', 'pipe', 'pipe'] as const
  const child = spawn(program, args, { cwd, env: { ...process.env, ...env }, stdio: [...stdio] }) as Process
  running.push(child)
  return child
}

/** The first line of the output that matches. */
async function lineOf(stream: Readable, pattern: RegExp): Promise<RegExpExecArray> {
  for await (const line of createInterface({ input: stream })) {
    const found = pattern.exec(line)
    if (found !== null) {
      stream.resume()
      return found
    }
  }
  throw new Error(`The process ended without a line that matches ${pattern}`)
}

async function run(): Promise<void> {
  const [sandboxPort, redisPort] = [await freePort(), await freePort()]
  const onLoopback = (text: string): string =>
    text
      .replaceAll('sandbox:4000', `127.0.0.1:${sandboxPort}`)
      .replaceAll('redis:6379', `127.0.0.1:${redisPort}`)

  const redis = start([...readService('redis').command, '--bind', '127.0.0.1', '--port', redisPort])
  await lineOf(redis.stdout, /Ready to accept connections/)

  const [npx, name, ...args] = readService('sandbox').command
  assert.deepEqual([npx, name], ['npx', 'merchant-auth'])
  assert.deepEqual(args.slice(1, 5), ['--host', '0.0.0.0', '--port', '4000'])
  const changed = args.map((arg) => ({ '0.0.0.0': '127.0.0.1', '4000': sandboxPort })[arg] ?? arg)
  const sandbox = start([process.execPath, PROGRAM, ...changed])
  let tokenRequests = 0
  sandbox.stderr.on('data', (chunk: Buffer) => {
    tokenRequests += String(chunk).split(' /oauth/token ').length - 1
  })
  await lineOf(sandbox.stdout, /URL/)

  const { command, environment } = readService('service')
  const variables = Object.entries(environment).map(([variable, value]) => [variable, onLoopback(value)])
  for (const instance of ['first', 'second']) {
    const [node, ...program] = command
    assert.equal(node, 'node')
    const service = start([process.execPath, ...program], { ...Object.fromEntries(variables), PORT: '0' })
    const [, port] = await lineOf(service.stdout, /listens on port (\d+)/)
    const response = await fetch(`http://127.0.0.1:${port}/orders/1`)
    const { path, jti } = (await response.json()) as { path: string; jti: string }
    assert.deepEqual([response.status, path], [200, '/merchant/orders/1'])
    console.log(`The ${instance} instance called the merchant API with token ${jti.slice(0, 8)}.`)
  }
  assert.equal(tokenRequests, 1)
}

if (hasRedis()) {
  try {
    await run()
  } finally {
    const ends = running.map((child) => child.exitCode ?? once(child, 'exit'))
    for (const child of running.reverse()) child.kill()
    await Promise.all(ends)
  }
} else {
  console.log('redis-server is not installed (apt-get install redis-server): the service has no store.')
  process.exitCode = process.env['CI'] === undefined ? 0 : 1
}
