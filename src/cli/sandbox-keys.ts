/** Keys: what a person at the terminal can do to a running sandbox. At the end the terminal is as it was before. */
import { execFileSync } from 'node:child_process'
import type { SandboxFaults } from './sandbox-faults.ts'
import type { Keyboard } from './terminal.ts'

export const KEYS_HELP = `  r  revoke all tokens
  f  return 503 to the next token request
  u  return 401 to the next call of each API
  c  clear all faults
  q  quit, like Ctrl-C`

const UNAUTHORIZED = {
  kind: 'status',
  status: 401,
  headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
  body: { error: 'invalid_token' },
} as const

/** Does what a key stands for, in both environments. Returns what was done, for people. */
export function pressKey(key: string, faults: SandboxFaults): string | undefined {
  if (key === 'r') {
    const revoked = faults.environments.reduce((sum, environment) => sum + environment.revoke(), 0)
    return `${revoked} ${revoked === 1 ? 'token' : 'tokens'} revoked`
  }
  if (key === 'f') {
    const fault = { kind: 'status', status: 503 } as const
    faults.queue({ target: 'token', fault, times: 1, label: 'status=503 (key f)' })
    return 'a 503 is queued for the next token request'
  }
  if (key === 'u') {
    for (const target of ['merchant', 'in-store'] as const)
      faults.queue({ target, fault: UNAUTHORIZED, times: 1, label: 'status=401 (key u)' })
    return 'a 401 is queued for the next call of each API'
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
  const onData = (chunk: Buffer): void => {
    const text = chunk.toString()
    if (text.startsWith('\u001b')) return // arrows and other keys that are a sequence
    for (const key of text) onKey(key === '\u0003' ? 'q' : key)
  }
  stdin.setRawMode?.(true)
  stdin.on('data', onData)
  stdin.resume()
  return () => {
    stdin.off('data', onData)
    stdin.setRawMode?.(false)
    stdin.pause()
  }
}

/**
 * Whether this process may read keys: the system stops a background process (started with `&`) that does. False where
 * that is unknown, because `ps` is not installed.
 */
export function isInForeground(): boolean {
  if (process.platform === 'win32') return true // no process groups
  try {
    const args = ['-o', 'stat=', '-p', String(process.pid)]
    const stat = execFileSync('ps', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    return stat.includes('+')
  } catch {
    return false
  }
}
