/** Commands run within the test: their arguments and variables in, what they print and their exit code out. */
import { PassThrough } from 'node:stream'
import type { SandboxEnvironment } from 'merchant-auth/testing'
import { runCommandLine } from '../../src/cli/command-line.ts'

export type Variables = Readonly<Record<string, string | undefined>>

export interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface Run extends Promise<Outcome> {
  /** What Ctrl-C does. */
  interrupt(): void
}

/** Runs `merchant-auth` with these arguments. No stream of it is a terminal. */
export function run(args: readonly string[], env: Variables = {}): Run {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const stop = new AbortController()
  const outcome = runCommandLine(args, { env, stdout, stderr, signal: stop.signal }).then((code) => ({
    code,
    stdout: textOf(stdout),
    stderr: textOf(stderr),
  }))
  return Object.assign(outcome, { interrupt: () => stop.abort('SIGINT') })
}

function textOf(stream: PassThrough): string {
  return String((stream.read() as Buffer | null) ?? '')
}

/** The variables for an environment of the sandbox. */
export function variablesFor(
  environment: Pick<SandboxEnvironment, 'environment' | 'clientId' | 'clientSecret'>,
) {
  const { authUrl, audience, apiUrls } = environment.environment
  return {
    MERCHANT_AUTH_URL: authUrl,
    MERCHANT_AUTH_AUDIENCE: audience,
    MERCHANT_AUTH_API_URLS: apiUrls.join(','),
    MERCHANT_AUTH_CLIENT_ID: environment.clientId,
    MERCHANT_AUTH_CLIENT_SECRET: environment.clientSecret,
  }
}

/** The text with ports, times and durations as in the docs. */
export function asInDocs(text: string, ports: Readonly<Record<string, number>>): string {
  return text
    .replace(/(?<=(?:127\.0\.0\.1|localhost):)\d+/g, (port) => String(ports[port] ?? port))
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '2026-11-21T13:00:00.000Z')
    .replace(/(?<=certificate until )[\d-]+/g, '2027-11-21')
    .replace(/\b\d+ ms\b/g, '12 ms')
}
