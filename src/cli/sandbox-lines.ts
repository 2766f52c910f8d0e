/** A request of the sandbox as a line: aligned and coloured for people, or JSON for programs. */
import type { Writable } from 'node:stream'
import type { SandboxRequest } from '../testing/index.ts'
import { asciiJson, paint, printable } from './terminal.ts'

/** Which of the two environments. */
export type EnvironmentName = 'production' | 'test'

/** A request that is over, where it was made, and what the fault is called that it met. */
export interface RequestSeen {
  readonly request: SandboxRequest
  readonly environment: EnvironmentName
  readonly fault?: string | undefined
}

const LONGEST_PATH = 60
const LONGEST_FAULT = 60

const STYLES = { '2': 'green', '3': 'cyan', '4': 'yellow', '5': 'red' } as const

/** The lines for people. A column is as wide as what it has held so far. */
export class RequestLines {
  readonly #stderr: Writable
  readonly #expected: EnvironmentName
  /** Whether requests of both environments are to be told apart. */
  #areBoth = false
  #pathWidth = 24

  /** @param environment the one that requests are expected in; it is named once there are requests in the other */
  constructor(stderr: Writable, environment: EnvironmentName) {
    this.#stderr = stderr
    this.#expected = environment
  }

  line(seen: RequestSeen): string {
    const { request, environment } = seen
    const { at, target = '-', method, status, durationMs = 0 } = request
    const path = printable(request.path, LONGEST_PATH)
    this.#areBoth ||= environment !== this.#expected
    this.#pathWidth = Math.max(this.#pathWidth, path.length)
    const shownStatus = String(status ?? '---')
    const style = STYLES[shownStatus[0] as keyof typeof STYLES] ?? 'magenta'
    return [
      paint('dim', timeOf(at), this.#stderr),
      ...(this.#areBoth ? [environment.padEnd(10)] : []),
      target.padEnd(8),
      printable(method, 16).padEnd(6),
      path.padEnd(this.#pathWidth),
      paint(style, shownStatus, this.#stderr),
      `${Math.round(durationMs)} ms`.padStart(8),
      ` ${whatHappened(seen)}`,
    ]
      .join('  ')
      .trimEnd()
  }
}

/** What became of it, in a few words. */
function whatHappened({ request, fault }: RequestSeen): string {
  const { target, jti, status, error, errorDescription } = request
  const parts: string[] = []
  if (jti !== undefined) parts.push(`token ${jti.slice(0, 8)}${target === 'token' ? ' issued' : ''}`)
  if (error === 'unauthorized') parts.push('no token')
  else if (error !== undefined) {
    parts.push(errorDescription === undefined ? error : `${error}: ${errorDescription}`)
  }
  if (fault !== undefined) parts.push(`fault ${printable(fault, LONGEST_FAULT)}`)
  else if (status === undefined) parts.push('the client left')
  return printable(parts.join(', '), 160)
}

/** 13:07:59.123, in the time zone of whoever reads it. */
function timeOf(at: number): string {
  const date = new Date(at)
  const [hours, minutes, seconds] = [date.getHours(), date.getMinutes(), date.getSeconds()].map(twoDigits)
  return `${hours}:${minutes}:${seconds}.${String(date.getMilliseconds()).padStart(3, '0')}`
}

function twoDigits(number: number): string {
  return String(number).padStart(2, '0')
}

/** The line for programs: JSON, with all that is not ASCII escaped, which could steer a terminal. */
export function jsonLine({ request, environment, fault }: RequestSeen): string {
  const { id, at, target, method, path, status, durationMs = 0, jti, error, errorDescription } = request
  const shown = {
    time: new Date(at).toISOString(),
    environment,
    id,
    target,
    method,
    path,
    status,
    durationMs: Math.round(durationMs * 1000) / 1000,
    jti,
    error,
    errorDescription,
    fault,
  }
  return asciiJson(shown)
}
