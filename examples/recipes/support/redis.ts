/** A redis-server of a recipe's own: on a free port of 127.0.0.1, without files, gone with the process. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'

/** Whether there is a redis-server on this machine. */
export function hasRedis(): boolean {
  return spawnSync('redis-server', ['--version']).error === undefined
}

/** A running redis-server. */
export interface RedisServer extends AsyncDisposable {
  readonly url: string
}

/** Starts a redis-server. */
export async function startRedis(): Promise<RedisServer> {
  const port = await freePort()
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  const server = spawn('redis-server', args, { cwd: tmpdir(), stdio: ['ignore', 'pipe', 'inherit'] })
  const kill = (): void => void server.kill('SIGKILL')
  process.once('exit', kill)
  await ready(server)
  return {
    url: `redis://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      const ended = once(server, 'exit')
      kill()
      await ended
      process.off('exit', kill)
    },
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function ready({ stdout }: ChildProcess): Promise<void> {
  const said: string[] = []
  for await (const line of createInterface({ input: stdout as NodeJS.ReadableStream })) {
    said.push(line)
    if (line.includes('Ready to accept connections')) return
  }
  throw new Error(`redis-server did not start:\n${said.join('\n')}`)
}
