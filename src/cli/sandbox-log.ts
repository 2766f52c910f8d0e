/** The log of the sandbox's requests: aligned and colored lines for people, or JSON for programs. */
import type { SandboxRequest } from '../testing/index.ts'
import { asciiJson, type Output, paint, printable } from './terminal.ts'

/** A request that is over, its environment, and the label of the fault that applied to it. */
export interface LoggedRequest {
  readonly request: SandboxRequest
  readonly environment: 'production' | 'test'
  readonly fault: string | undefined
}

const COLORS = { '2': 'green', '3': 'cyan', '4': 'yellow', '5': 'red' } as const

/** Makes lines for people. The environment is named only after requests to another one than the expected one. */
export function lineFormat(stderr: Output, expected: string): (logged: LoggedRequest) => string {
  let namesEnvironment = false
  let pathWidth = 24 // as wide as the longest path so far
  return ({ request, environment, fault }) => {
    const { at, target = '-', method, durationMs = 0 } = request
    const path = printable(request.path, 60)
    const status = String(request.status ?? '---')
    const color = COLORS[status[0] as keyof typeof COLORS] ?? 'magenta'
    const date = new Date(at)
    const time = `${date.toTimeString().slice(0, 8)}.${String(date.getMilliseconds()).padStart(3, '0')}`
    namesEnvironment ||= environment !== expected
    pathWidth = Math.max(pathWidth, path.length)
    return [
      paint('dim', time, stderr),
      ...(namesEnvironment ? [environment.padEnd(10)] : []),
      target.padEnd(8),
      printable(method, 16).padEnd(6),
      path.padEnd(pathWidth),
      paint(color, status, stderr),
      `${Math.round(durationMs)} ms`.padStart(8),
      ` ${outcomeOf(request, fault)}`,
    ]
      .join('  ')
      .trimEnd()
  }
}

function outcomeOf(request: SandboxRequest, fault: string | undefined): string {
  const { target, jti, status, error, errorDescription } = request
  const parts: string[] = []
  if (jti !== undefined) parts.push(`token ${jti.slice(0, 8)}${target === 'token' ? ' issued' : ''}`)
  if (error === 'unauthorized') parts.push('no token')
  else if (error !== undefined)
    parts.push(errorDescription === undefined ? error : `${error}: ${errorDescription}`)
  if (fault !== undefined) parts.push(`fault ${fault}`)
  else if (status === undefined) parts.push('the client disconnected')
  return printable(parts.join(', '), 160)
}

/** Makes JSON lines for programs. */
export function jsonFormat({ request, environment, fault }: LoggedRequest): string {
  const { id, at, target, method, path, status, durationMs = 0, jti, error, errorDescription } = request
  const time = new Date(at).toISOString()
  const rounded = Math.round(durationMs * 1000) / 1000
  const known = { time, environment, id, target, method, path, status, durationMs: rounded }
  return asciiJson({ ...known, jti, error, errorDescription, fault })
}
