/** Real Redis servers (7 or newer) for tests, on free ports of 127.0.0.1. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Redis } from 'ioredis'
import { PATIENCE_MS } from './patience.ts'

// Below the ephemeral ports of the system, as is the second port of a cluster node, which is 10 000 higher: the port of
// a stopped server stays free until it is restarted.
const FIRST_PORT = 12_000
const LAST_PORT = 21_999
const MOST_TRIES = 20
const SLOTS = 16_384
const WITHOUT_TRACE = ['--save', '', '--appendonly', 'no', '--bind', '127.0.0.1', '--shutdown-timeout', '0']

/** A dedicated Redis server, which is empty after each start. */
export interface RedisServer extends AsyncDisposable {
  readonly port: number
  readonly url: string
  /** Stops it gracefully (SIGTERM), even if it is frozen. */
  stop(): Promise<void>
  /** Stops it at once (SIGKILL). */
  kill(): Promise<void>
  /** Makes it hang (SIGSTOP): the system still accepts connections for it. */
  freeze(): void
  thaw(): void
  /** Starts it on the same port, after stopping it if it still runs. */
  restart(): Promise<void>
  /** Its answer to a command, with each item of a list on its own line. */
  command(...words: string[]): Promise<string>
}

/** A cluster of masters without replicas, which share the slots. */
export interface RedisCluster extends AsyncDisposable {
  readonly ports: readonly number[]
  readonly servers: readonly RedisServer[]
  /** Resolves when every node reports that the cluster is complete. */
  whole(): Promise<void>
  stop(): Promise<void>
}

/** Undefined if redis-server is installed; otherwise a message with the consequence and how to install it. */
export function redisMissing(): string | undefined {
  if (spawnSync('redis-server', ['--version']).error === undefined) return undefined
  return 'redis-server is not installed: what needs a real Redis is skipped. To get it: apt-get install redis-server'
}

/** Starts a redis-server on a free port. */
export async function startRedis({ args = [] }: { args?: string[] } = {}): Promise<RedisServer> {
  const missing = redisMissing()
  if (missing !== undefined) throw new Error(missing)
  for (let tries = 1; ; tries += 1) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT + 1))
    const directory = reserve(port)
    if (directory === undefined && tries < MOST_TRIES) continue
    if (directory === undefined) throw new Error(`No port was free in ${MOST_TRIES} tries`)
    const server = new LocalRedis(port, directory, args)
    try {
      await server.restart()
      return server
    } catch (error) {
      await server[Symbol.asyncDispose]()
      if (tries === MOST_TRIES) throw error
    }
  }
}

/** Reserves a port through its directory, which keeps it for one server even while that is stopped. */
function reserve(port: number): string | undefined {
  const directory = join(tmpdir(), `redis-${port}`)
  try {
    mkdirSync(directory)
    return directory
  } catch {
    return undefined // the directory exists: another server has the port
  }
}

/** Starts a cluster. A node that does not answer for a second counts as down. */
export async function startRedisCluster(nodes = 3): Promise<RedisCluster> {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000']
  const starts = await Promise.allSettled(Array.from({ length: nodes }, () => startRedis({ args })))
  const servers = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []))
  const stop = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()))
  }
  const whole = async (): Promise<void> => {
    await until('the cluster to be whole', async () => {
      const states = await Promise.all(servers.map((server) => server.command('cluster', 'info')))
      return states.every(
        (state) => state.includes('cluster_state:ok') && state.includes(`cluster_known_nodes:${nodes}`),
      )
    })
  }
  try {
    for (const start of starts) if (start.status === 'rejected') throw start.reason
    const bounds = Array.from({ length: nodes + 1 }, (_, n) => Math.floor((n * SLOTS) / nodes))
    for (const [n, server] of servers.entries()) {
      const [from = 0, to = 0] = bounds.slice(n)
      await server.command('cluster', 'addslotsrange', String(from), String(to - 1))
      await server.command('cluster', 'set-config-epoch', String(n + 1))
      await servers[0]?.command('cluster', 'meet', '127.0.0.1', String(server.port))
    }
    await whole()
  } catch (error) {
    await stop()
    throw error
  }
  return { ports: servers.map(({ port }) => port), servers, whole, stop, [Symbol.asyncDispose]: stop }
}

class LocalRedis implements RedisServer {
  readonly port: number
  readonly #args: readonly string[]
  readonly #directory: string
  readonly #guard: ChildProcess
  #process: ChildProcess | undefined

  constructor(port: number, directory: string, args: readonly string[]) {
    this.port = port
    this.#directory = directory
    this.#args = args
    this.#guard = guard(directory)
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  async stop(): Promise<void> {
    await this.#end('SIGTERM')
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  freeze(): void {
    this.#process?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#process?.kill('SIGCONT')
  }

  async restart(): Promise<void> {
    await this.kill()
    const args = [...WITHOUT_TRACE, '--port', String(this.port), '--dir', this.#directory, ...this.#args]
    const server = spawn('redis-server', args, { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
    this.#process = server
    this.#guard.stdin?.write(`${server.pid ?? ''}\n`)
    server.once('exit', () => {
      if (this.#process === server) this.#process = undefined
      this.#guard.stdin?.write('\n')
    })
    await this.#ready(server)
    server.unref()
  }

  async command(...words: string[]): Promise<string> {
    const [name = '', ...args] = words
    const client = new Redis(this.port, '127.0.0.1', {
      commandTimeout: PATIENCE_MS,
      retryStrategy: () => null,
      enableReadyCheck: false,
    })
    client.on('error', () => {}) // the command rejects as well
    try {
      return [await client.call(name, ...args)].flat().join('\n')
    } finally {
      client.disconnect()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    if (this.#guard.exitCode !== null) return
    this.#guard.ref()
    this.#guard.stdin?.end()
    await once(this.#guard, 'exit')
  }

  /** Waits for the server's own message, because another server on this port could answer a PING. */
  async #ready(server: ChildProcess): Promise<void> {
    const { stdout } = server
    if (stdout === null) return
    const lines: string[] = []
    await new Promise<void>((resolve, reject) => {
      createInterface(stdout).on('line', (line) => {
        if (lines.push(line) && line.includes('Ready to accept connections')) resolve()
      })
      server.once('error', reject)
      server.once('exit', () => reject(new Error(`redis-server did not start: ${lines.join('\n')}`)))
    })
    ;(stdout as Socket).unref()
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const server = this.#process
    if (server === undefined) return
    const ended = once(server, 'exit')
    server.ref()
    server.kill(signal)
    server.kill('SIGCONT')
    await ended
  }
}

/**
 * A process that outlives this one, however this one ends: then it kills the server whose process ID it received last,
 * and removes the directory.
 */
function guard(directory: string): ChildProcess {
  const script = 'while read -r line; do pid=$line; done; [ -n "$pid" ] && kill -KILL "$pid"; rm -rf -- "$0"'
  const shell = spawn('sh', ['-c', script, directory], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  shell.unref()
  ;(shell.stdin as unknown as Socket).unref()
  return shell
}

async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  const endsAt = performance.now() + PATIENCE_MS
  while (!(await condition())) {
    if (performance.now() > endsAt) throw new Error(`Waited ${PATIENCE_MS} ms for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
