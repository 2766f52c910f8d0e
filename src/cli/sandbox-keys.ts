/** Keys: what a person at the terminal can do to a running sandbox. At the end the terminal is as it was before. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { emitKeypressEvents } from 'node:readline'
import { PassThrough } from 'node:stream'
import type { Fault, SandboxTarget } from '../testing/index.ts'
import type { SandboxFaults } from './sandbox-faults.ts'
import type { Keyboard } from './terminal.ts'

export const KEYS_HELP = `  r  revoke all tokens
  f  return 503 to the next token request
  u  return 401 to the next call of each API
  c  clear all faults
  q  quit, like Ctrl-C`

const allFail = (requests: string): string => `all ${requests} already have a fault (c clears it)`

const UNAUTHORIZED = {
  kind: 'status',
  status: 401,
  headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
  body: { error: 'invalid_token' },
} as const

/** Does what a key stands for, in both environments. Returns what was done, for people. */
export function pressKey(key: string, faults: SandboxFaults): string | undefined {
  const failNext = (target: SandboxTarget, fault: Fault & { readonly kind: 'status' }): boolean =>
    faults.queue({ target, fault, times: 1, label: `status=${fault.status} (key ${key})` })
  if (key === 'r') {
    const revoked = faults.environments.reduce((sum, environment) => sum + environment.revoke(), 0)
    return `${revoked} ${revoked === 1 ? 'token' : 'tokens'} revoked`
  }
  if (key === 'f') {
    const isQueued = failNext('token', { kind: 'status', status: 503 })
    return isQueued ? 'the next token request gets a 503' : allFail('token requests')
  }
  if (key === 'u') {
    const apis = (['merchant', 'in-store'] as const).filter((api) => failNext(api, UNAUTHORIZED))
    if (apis.length === 0) return allFail('API calls')
    return `the next call of ${apis.length === 2 ? 'each' : `the ${apis[0]}`} API gets a 401`
  }
  if (key !== 'c') return undefined
  faults.clear()
  return 'all faults cleared'
}

/**
 * Listens to single keys until the returned function is called, which restores the terminal. Ctrl-C, which is not a
 * signal in this mode, is reported as `q`.
 */
export function listenToKeys(stdin: Keyboard, onKey: (key: string) => void): () => void {
  // A stream in between, because emitKeypressEvents would stay attached to stdin.
  const keys = new PassThrough()
  const forward = (chunk: Buffer): unknown => keys.write(chunk)
  emitKeypressEvents(keys)
  keys.on('keypress', (_text, { name, ctrl }: { readonly name?: string; readonly ctrl: boolean }) => {
    if (ctrl ? name === 'c' : name !== undefined) onKey(ctrl ? 'q' : String(name))
  })
  stdin.setRawMode?.(true)
  stdin.on('data', forward)
  stdin.resume()
  return () => {
    stdin.off('data', forward)
    stdin.setRawMode?.(false)
    stdin.pause()
    keys.destroy()
  }
}

/**
 * Whether this process may read keys: the system stops a background process (started with `&`) that does. False where
 * that is unknown.
 */
export function isInForeground(): boolean {
  if (process.platform === 'win32') return true // no process groups
  try {
    const [own = Number.NaN, foreground = Number.NaN] = processGroups().map(Number)
    return own === foreground || foreground <= 0 // -1 or 0: no terminal controls this process
  } catch {
    return false
  }
}

/** The process group, and the one in the foreground. On Linux, ps may not be installed: proc_pid_stat(5). */
function processGroups(): string[] {
  if (process.platform !== 'linux') {
    const args = ['-o', 'pgid=,tpgid=', '-p', String(process.pid)]
    return execFileSync('ps', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
      .trim()
      .split(/\s+/)
  }
  const stat = readFileSync('/proc/self/stat', 'utf8')
  // The name of the program is in parentheses, and may contain some.
  const [, , own = '', , , foreground = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return [own, foreground]
}
