/** The log of the sandbox's requests: a colored line for people, or JSON for programs. */

import { printable } from '../base/redact.ts'
import type { SandboxRequest } from '../testing/index.ts'
import { type Output, paint } from './terminal.ts'

/** Makes a line about a request that is over, from its environment and the label of the fault that applied to it. */
export type LogFormat = (request: SandboxRequest, environment: string, fault: string | undefined) => string

const COLORS = { '2': 'green', '3': 'cyan', '4': 'yellow', '5': 'red' } as const

interface LineOptions {
  /** The environment whose variables were printed. Lines name only the other one. */
  readonly environment: string
  /** Whether lines name the client. */
  readonly showsClients: boolean
}

/** For people. */
export function lineFormat(stderr: Output, { environment: expected, showsClients }: LineOptions): LogFormat {
  return (request, environment, fault) => {
    const { at, method, path, durationMs = 0 } = request
    const status = String(request.status ?? '---')
    const color = COLORS[status[0] as keyof typeof COLORS] ?? 'magenta'
    const date = new Date(at)
    const time = `${date.toTimeString().slice(0, 8)}.${String(date.getMilliseconds()).padStart(3, '0')}`
    const parts = [
      paint('dim', time, stderr),
      ...(environment === expected ? [] : [environment]),
      printable(method, { length: 16 }).padEnd(6),
      printable(path, { length: 60 }).padEnd(16),
      `${paint(color, status, stderr)} ${`${Math.round(durationMs)} ms`.padStart(7)}`,
      outcomeOf(request, { fault, showsClient: showsClients }),
    ]
    return parts.join('  ').trimEnd()
  }
}

interface OutcomeOptions {
  readonly fault: string | undefined
  readonly showsClient: boolean
}

function outcomeOf(request: SandboxRequest, { fault, showsClient }: OutcomeOptions): string {
  const { target, jti, clientId, status, error, errorDescription } = request
  const parts: string[] = []
  if (jti !== undefined) parts.push(`${target === 'token' ? 'issued' : 'token'} ${jti.slice(0, 8)}`)
  if (error === 'unauthorized') parts.push('no token')
  else if (error !== undefined)
    parts.push(errorDescription === undefined ? error : `${error}: ${errorDescription}`)
  if (showsClient && clientId !== undefined) parts.push(`client ${clientId}`)
  if (fault !== undefined) parts.push(`fault ${fault}`)
  else if (status === undefined) parts.push('the client disconnected')
  return printable(parts.join(', '), { length: 160 })
}

/** JSON for programs. */
export const jsonFormat: LogFormat = (request, environment, fault) => {
  const { id, at, target, method, path, status, durationMs, clientId, jti, error, errorDescription } = request
  const time = new Date(at).toISOString()
  const known = { time, environment, id, target, method, path, status, durationMs }
  return JSON.stringify({ ...known, clientId, jti, error, errorDescription, fault })
}
