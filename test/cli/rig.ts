/** Commands run within the test: arguments, variables and keys in, output and exit code out. */
import { PassThrough } from 'node:stream'
import { parseEnv, stripVTControlCharacters } from 'node:util'
import { type Sandbox, type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, expect } from 'vitest'
import { runCommandLine } from '../../src/cli/command-line.ts'
import type { Finding } from '../../src/cli/report.ts'
import { noteSecret } from '../support/recorded.ts'
import { type Client, until } from '../testing/calls.ts'

export type Variables = Readonly<Record<string, string | undefined>>

export interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface Running extends Promise<Outcome> {
  readonly signal: AbortSignal
  /** What Ctrl-C does. */
  interrupt(): void
  /** The output so far. */
  stdout(): string
  stderr(): string
}

/** A terminal instead of plain streams. */
export interface Terminal {
  readonly stdin?: PassThrough
  readonly columns?: number
  readonly getColorDepth?: () => number
}

const running: Running[] = []

afterEach(async () => {
  for (const one of running) one.interrupt()
  await Promise.allSettled(running.splice(0))
})

/** Runs `merchant-auth` with these arguments, as far as it gets within the test. */
export function run(args: readonly string[], env: Variables = {}, terminal?: Terminal): Running {
  const { stdin, ...properties } = terminal ?? {}
  const output = () => Object.assign(new PassThrough(), terminal && { isTTY: true, ...properties })
  const [stdout, stderr] = [output(), output()]
  const [written, logged] = [textOf(stdout), textOf(stderr)]
  const stop = new AbortController()
  const outcome = runCommandLine(args, { env, stdin, stdout, stderr, signal: stop.signal }).then((code) => ({
    code,
    stdout: written(),
    stderr: logged(),
  }))
  const one: Running = Object.assign(outcome, {
    signal: stop.signal,
    interrupt: () => stop.abort('SIGINT'),
    stdout: written,
    stderr: logged,
  })
  running.push(one)
  return one
}

function textOf(stream: PassThrough): () => string {
  let text = ''
  stream.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  return () => text + String(stream.read() ?? '')
}

/** The variables for an environment of the sandbox. */
function variablesFor({ environment, clientId, clientSecret }: Client) {
  return {
    MERCHANT_AUTH_URL: environment.authUrl,
    MERCHANT_AUTH_AUDIENCE: environment.audience,
    MERCHANT_AUTH_API_URLS: Object.entries(environment.apiUrls)
      .map((entry) => entry.join('='))
      .join(','),
    MERCHANT_AUTH_CLIENT_ID: clientId,
    MERCHANT_AUTH_CLIENT_SECRET: clientSecret,
  }
}

/** The sandbox of the test that runs, and the variables to use it by. */
export interface Place {
  test: SandboxEnvironment
  variables: ReturnType<typeof variablesFor>
}

/** A sandbox for each test of the file. */
export function eachWithSandbox(): Readonly<Place> {
  let sandbox: Sandbox | undefined
  const place = {} as Place
  beforeEach(async () => {
    sandbox = await startSandbox()
    noteSecret(sandbox.test.clientSecret)
    Object.assign(place, { test: sandbox.test, variables: variablesFor(sandbox.test) })
  })
  afterEach(() => sandbox?.close())
  return place
}

/** Runs `check --json`. */
export async function check(
  { variables }: Place,
  args: readonly string[] = [],
  changed: Variables = {},
): Promise<{ code: number; steps: readonly Finding[]; last: Finding | undefined }> {
  const { code, stdout } = await run(['check', '--json', ...args], { ...variables, ...changed })
  const { ok, exitCode, steps } = JSON.parse(stdout)
  expect({ ok, exitCode }).toEqual({ ok: code === 0, exitCode: code })
  return { code, steps, last: steps.at(-1) }
}

export function jwt(claims: unknown): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'none' })}.${part(claims)}.c2lnbmF0dXJl`
}

/** Makes the token endpoint return this token. */
export function issue({ test }: Place, value: string): void {
  noteSecret(value)
  const body = { access_token: value, expires_in: 3600, token_type: 'Bearer' }
  test.fail('token', { kind: 'json', body })
}

/** The command `sandbox`, as it runs. */
export interface RunningSandbox {
  readonly command: Running
  readonly client: Client
  readonly merchantUrl: string
  readonly inStoreUrl: string
  /** The URL of the merchant API of production, as the command shows it. */
  readonly productionUrl: string
  /** The lines on stderr that match, as soon as there are so many. */
  lines(count: number, pattern?: RegExp): Promise<string[]>
}

/** A line of a request. */
const REQUEST = /^\d\d:\d\d:\d\d\.\d{3} {2}/

/** Runs the command `sandbox` until it can be called. */
export async function sandbox(args: readonly string[] = [], terminal?: Terminal): Promise<RunningSandbox> {
  const command = run(['sandbox', ...args], {}, terminal)
  let isOver = false
  command.finally(() => {
    isOver = true
  })
  await until(() => isOver || command.stdout().endsWith('\n'))
  expect(isOver, command.stderr()).toBe(false)
  const variables = parseEnv(command.stdout())
  const read = (name: string): string => variables[`MERCHANT_AUTH_${name}`] ?? ''
  const urlOf = (name: string): string => new RegExp(`${name}=([^,]*)`).exec(read('API_URLS'))?.[1] ?? ''
  const apiUrls = { merchant: urlOf('merchant'), inStore: urlOf('inStore') }
  const environment = { authUrl: read('URL'), audience: read('AUDIENCE'), apiUrls }
  const stderr = () => stripVTControlCharacters(command.stderr())
  const [, productionUrl = ''] = /production.*?merchant API +(\S+)/s.exec(stderr()) ?? []
  return {
    command,
    client: { environment, clientId: read('CLIENT_ID'), clientSecret: read('CLIENT_SECRET') },
    merchantUrl: apiUrls.merchant,
    inStoreUrl: apiUrls.inStore,
    productionUrl,
    async lines(count, pattern = REQUEST) {
      const found = (): string[] =>
        stderr()
          .split('\n')
          .slice(0, -1)
          .filter((line) => pattern.test(line))
      await until(() => found().length >= count)
      return found()
    },
  }
}

/** The text without what differs in every run: ports, secrets, times, durations, tokens. */
export function constant(text: string): string {
  return text
    .replace(/(?<=127\.0\.0\.1:)\d+/g, 'PORT')
    .replace(/(?<=-secret-)[0-9a-f]{32}/g, 'HEX')
    .replace(/\d\d:\d\d:\d\d\.\d{3}/g, 'HH:MM:SS.mmm')
    .replace(/ +\d+ ms\b/g, '  N ms')
    .replace(/(?<=token )[0-9a-f]{8}\b/g, 'JTI')
}
