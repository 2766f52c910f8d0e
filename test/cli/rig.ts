/** Runs commands within the test: takes arguments, variables and keys; returns output and exit code. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { parseEnv, stripVTControlCharacters } from 'node:util'
import { exportSPKI, generateKeyPair, SignJWT } from 'jose'
import type { Environment } from 'merchant-auth'
import { type Sandbox, type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, expect, onTestFinished } from 'vitest'
import { runCommandLine } from '../../src/cli/command-line.ts'
import type { Finding } from '../../src/cli/report.ts'
import { noteSecret } from '../support/recorded.ts'
import { until } from '../testing/calls.ts'

export type Variables = Readonly<Record<string, string | undefined>>

export interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface Running extends Promise<Outcome> {
  /** Interrupts the command as Ctrl-C does. */
  interrupt(): void
  /** The output so far. */
  stdout(): string
  stderr(): string
}

/** A terminal instead of plain streams. */
export interface Terminal {
  readonly stdin?: PassThrough
  readonly getColorDepth?: () => number
}

/** Runs `merchant-auth` with these arguments in this process; a command that is still running is interrupted after the test. */
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
    interrupt: () => stop.abort('SIGINT'),
    stdout: written,
    stderr: logged,
  })
  onTestFinished(async () => {
    one.interrupt()
    await Promise.allSettled([one])
  })
  return one
}

export const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))

/** Runs `merchant-auth` in a separate process. */
export function program(args: readonly string[], env: Variables = {}, nodeArgs: readonly string[] = []) {
  const variables = { PATH: process.env['PATH'], NO_COLOR: '1', ...env }
  const child = spawn(process.execPath, [...nodeArgs, MAIN, ...args], { env: variables })
  const output = Promise.all([child.stdout, child.stderr].map((stream) => text(stream).catch(() => '')))
  const ended = once(child, 'close').then(async ([code, signal]: (number | string | null)[]) => {
    const [stdout = '', stderr = ''] = await output
    return { stdout, stderr, code, signal }
  })
  return { child, ended }
}

/** A folder for the files of a test. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'merchant-auth-'))
  onTestFinished(() => rmSync(path, { recursive: true }))
  return path
}

function textOf(stream: PassThrough): () => string {
  let text = ''
  stream.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  return () => text + String(stream.read() ?? '')
}

/** The API URLs in the format of MERCHANT_AUTH_API_URLS. */
export function namedUrls(apiUrls: Environment['apiUrls']): string {
  return Object.entries<string>(apiUrls)
    .map((entry) => entry.join('='))
    .join(',')
}

/** The sandbox of the current test, and the variables for it. */
export interface Place {
  sandbox: Sandbox
  test: SandboxEnvironment
  variables: SandboxEnvironment['variables']
}

/** A sandbox for each test of the file. */
export function eachWithSandbox(): Readonly<Place> {
  const place = {} as Place
  beforeEach(async () => {
    const sandbox = await startSandbox()
    Object.assign(place, { sandbox, test: sandbox.test, variables: sandbox.test.variables })
  })
  afterEach(() => place.sandbox.close())
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
export function issue({ test }: Place, value: string, lifetimeS = 3600): void {
  noteSecret(value)
  const body = { access_token: value, expires_in: lifetimeS, token_type: 'Bearer' }
  test.fail('token', { kind: 'json', body })
}

/** Makes the token endpoint accept assertions. Returns a function that signs one with a new id. */
export async function assertionsFor({ test }: Place): Promise<() => Promise<string>> {
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  test.configure({ assertionKey: await exportSPKI(publicKey) })
  const { clientId, environment } = test
  return async () => {
    const claims = { iss: clientId, sub: clientId, aud: environment.authUrl, jti: randomUUID() }
    const jwt = new SignJWT(claims).setProtectedHeader({ alg: 'ES256' }).setExpirationTime('1 min')
    const assertion = await jwt.sign(privateKey)
    noteSecret(assertion)
    return assertion
  }
}

export const flagsOf = (faults: readonly string[]): string[] => faults.flatMap((fault) => ['--fault', fault])

/** Matches the start of a log line for a request. */
const REQUEST = /^\d\d:\d\d:\d\d\.\d{3} {2}/

export type RunningSandbox = Awaited<ReturnType<typeof sandbox>>

/** Runs the command `sandbox`, and waits until its environments can be called. */
export async function sandbox(args: readonly string[] = [], terminal?: Terminal) {
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
  const [, productionUrl = ''] = /production.*?merchant +(\S+)/s.exec(stderr()) ?? []
  return {
    command,
    client: { environment, clientId: read('CLIENT_ID'), clientSecret: read('CLIENT_SECRET') },
    merchantUrl: apiUrls.merchant,
    inStoreUrl: apiUrls.inStore,
    /** The URL of the merchant API of production, from the output of the command. */
    productionUrl,
    /** The lines on stderr that match, as soon as there are at least `count`. */
    async lines(count: number, pattern = REQUEST): Promise<string[]> {
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

/** The text with placeholders for what differs in every run: ports, secrets, times, durations, tokens. */
export function withPlaceholders(text: string): string {
  return text
    .replace(/(?<=127\.0\.0\.1:)\d+/g, 'PORT')
    .replace(/(?<=-secret-)[0-9a-f]{32}/g, 'HEX')
    .replace(/\d\d:\d\d:\d\d\.\d{3}/g, 'HH:MM:SS.mmm')
    .replace(/ +\d+ ms\b/g, '  N ms')
    .replace(/(?<=token |issued )[0-9a-f]{8}\b/g, 'JTI')
}
