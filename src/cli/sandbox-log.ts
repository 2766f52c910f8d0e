/** The log of the sandbox's requests: aligned and colored lines that fit a terminal, or JSON for programs. */
import type { SandboxRequest } from '../testing/index.ts'
import { asciiJson, lineWidthOf, type Output, paint, printable, wrap } from './terminal.ts'

/** Makes a line about a request that is over, from its environment and the label of the fault that applied to it. */
export type LogFormat = (request: SandboxRequest, environment: string, fault: string | undefined) => string

const COLORS = { '2': 'green', '3': 'cyan', '4': 'yellow', '5': 'red' } as const

/** The columns of a time, and of an outcome that names a token: `issued 8648c547`. */
const TIME = 12
const OUTCOME = 15

/**
 * For people. The environment is named only after requests to another one than the expected one. A line fits the
 * terminal: a long path loses its middle, and what happened follows on a line of its own. Without a terminal a request
 * is one line, and keeps its path.
 */
export function lineFormat(stderr: Output, expected: string): LogFormat {
  let namesEnvironment = false
  let longest = 16 // of the paths so far
  return (request, environment, fault) => {
    const width = lineWidthOf(stderr)
    const { at, method, durationMs = 0 } = request
    const path = printable(request.path, 60)
    const status = String(request.status ?? '---')
    const color = COLORS[status[0] as keyof typeof COLORS] ?? 'magenta'
    const date = new Date(at)
    const time = `${date.toTimeString().slice(0, 8)}.${String(date.getMilliseconds()).padStart(3, '0')}`
    namesEnvironment ||= environment !== expected
    longest = Math.max(longest, path.length)
    const name = namesEnvironment ? `${environment.padEnd(10)}  ` : ''
    const sent = `  ${name}${printable(method, 16).padEnd(6)}  `
    const duration = ` ${`${Math.round(durationMs)} ms`.padStart(7)}`
    const outcome = outcomeOf(request, fault)
    const room = width - TIME - sent.length - 2 - status.length - duration.length
    const roomBeside = room - 2 - OUTCOME
    const pathWidth = Math.min(longest, Math.max(8, roomBeside < 16 ? room : roomBeside))
    const fits = pathWidth + 2 + outcome.length <= room
    const below = fits ? `  ${outcome}` : `\n${wrap(' '.repeat(TIME + 2), outcome, width)}`
    const shown = `${sent}${shortened(path, pathWidth).padEnd(pathWidth)}  `
    const line = `${paint('dim', time, stderr)}${shown}${paint(color, status, stderr)}${duration}`
    return (line + below).trimEnd()
  }
}

/** Without its middle, where it is too long. */
function shortened(path: string, length: number): string {
  if (path.length <= length) return path
  const start = Math.ceil((length - 1) / 2)
  return `${path.slice(0, start)}…${path.slice(path.length - (length - 1 - start))}`
}

function outcomeOf(request: SandboxRequest, fault: string | undefined): string {
  const { target, jti, status, error, errorDescription } = request
  const parts: string[] = []
  if (jti !== undefined) parts.push(`${target === 'token' ? 'issued' : 'token'} ${jti.slice(0, 8)}`)
  if (error === 'unauthorized') parts.push('no token')
  else if (error !== undefined)
    parts.push(errorDescription === undefined ? error : `${error}: ${errorDescription}`)
  if (fault !== undefined) parts.push(`fault ${fault}`)
  else if (status === undefined) parts.push('the client disconnected')
  return printable(parts.join(', '), 160)
}

/** JSON for programs. */
export const jsonFormat: LogFormat = (request, environment, fault) => {
  const { id, at, target, method, path, status, jti, error, errorDescription } = request
  const time = new Date(at).toISOString()
  const durationMs = Math.round((request.durationMs ?? 0) * 1000) / 1000
  const known = { time, environment, id, target, method, path, status, durationMs }
  return asciiJson({ ...known, jti, error, errorDescription, fault })
}
