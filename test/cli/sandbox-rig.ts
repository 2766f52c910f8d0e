/** The command `sandbox`, run within the test: its streams, its variables, a keyboard that is none, and its end. */
import { PassThrough } from 'node:stream'
import { parseEnv, stripVTControlCharacters } from 'node:util'
import { afterEach } from 'vitest'
import { createSandboxCommand } from '../../src/cli/sandbox.ts'
import type { Keyboard } from '../../src/cli/sandbox-keys.ts'
import { type Client, until } from '../testing/calls.ts'

/** A command that runs. */
export interface Running {
  readonly stop: AbortController
  /** Its exit code. */
  readonly ended: Promise<number>
  /** What it has printed so far, without colours. */
  stdout(): string
  stderr(): string
  /** The lines on stderr that match, when there are so many. */
  lines(count: number, pattern?: RegExp): Promise<string[]>
}

/** A command that runs, and whose variables have been printed. */
export interface Started extends Running {
  readonly client: Client
  readonly merchantUrl: string
  readonly inStoreUrl: string
  /** The URL of the merchant API of production, as people are told it. */
  readonly productionUrl: string
}

export interface Terminal {
  readonly stdin?: Keyboard
  readonly isInForeground?: boolean
}

const running: Running[] = []

afterEach(async () => {
  for (const { stop } of running) stop.abort()
  await Promise.allSettled(running.map(({ ended }) => ended))
  running.length = 0
})

/** A line of a request. */
const REQUEST = /^\d\d:\d\d:\d\d\.\d{3} {2}/

/** Runs the command; with a keyboard, its stderr is a terminal. */
export function run(args: readonly string[], { stdin, isInForeground = true }: Terminal = {}): Running {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  if (stdin !== undefined) Object.assign(stderr, { isTTY: true })
  const [printed, said] = [textOf(stdout), textOf(stderr)]
  const stop = new AbortController()
  const command = createSandboxCommand({
    stdin: () => {
      if (stdin === undefined) throw new Error('nobody asked for keys')
      return stdin
    },
    isInForeground: () => isInForeground,
  })
  const ended = command.run(args, { env: {}, stdout, stderr, signal: stop.signal })
  const one: Running = {
    stop,
    ended,
    stdout: printed,
    stderr: said,
    async lines(count, pattern = REQUEST) {
      const found = (): string[] =>
        said()
          .split('\n')
          .slice(0, -1)
          .filter((line) => pattern.test(line))
      await until(() => found().length >= count)
      return found()
    },
  }
  running.push(one)
  return one
}

/** Runs the command until it can be called. */
export async function start(args: readonly string[] = [], terminal: Terminal = {}): Promise<Started> {
  const one = run(args, terminal)
  let failed: unknown
  one.ended.catch((error: unknown) => {
    failed = error
  })
  await until(() => failed !== undefined || one.stdout().endsWith('\n'))
  if (failed !== undefined) throw failed
  const variables = parseEnv(one.stdout())
  const read = (name: string): string => variables[`MERCHANT_AUTH_${name}`] ?? ''
  const apiUrls = read('API_URLS').split(',')
  const environment = { authUrl: read('URL'), audience: read('AUDIENCE'), apiUrls }
  const [, productionUrl = ''] = /production.*?merchant API +(\S+)/s.exec(one.stderr()) ?? []
  const client = { environment, clientId: read('CLIENT_ID'), clientSecret: read('CLIENT_SECRET') }
  return { ...one, client, merchantUrl: apiUrls[0] ?? '', inStoreUrl: apiUrls[1] ?? '', productionUrl }
}

function textOf(stream: PassThrough): () => string {
  let text = ''
  stream.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  return () => stripVTControlCharacters(text)
}

/** The text without what is another in every run: ports, secrets, times, durations, tokens. */
export function constant(text: string): string {
  return text
    .replace(/(?<=127\.0\.0\.1:)\d+/g, 'PORT')
    .replace(/(?<=-secret-)[0-9a-f]{32}/g, 'HEX')
    .replace(/\d\d:\d\d:\d\d\.\d{3}/g, 'HH:MM:SS.mmm')
    .replace(/ +\d+ ms\b/g, '  N ms')
    .replace(/(?<=token )[0-9a-f]{8}\b/g, 'JTI')
}
