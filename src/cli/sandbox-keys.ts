/** Keys: what a person at the terminal can do to a running sandbox, and the terminal as it was before at the end. */
import { emitKeypressEvents } from 'node:readline'
import { PassThrough, type Readable } from 'node:stream'
import type { Fault, Sandbox, SandboxTarget } from '../testing/index.ts'

/** A stdin that may be a terminal. */
export type Keyboard = Readable & {
  readonly isTTY?: boolean
  setRawMode?(isRaw: boolean): unknown
}

/** A sandbox that keys act on. */
export interface Played {
  readonly sandbox: Sandbox
  /** The targets with a fault that stands until the end: another one would never be met. */
  readonly standing: Set<SandboxTarget>
  /** Told of each fault that a key orders. */
  onFault(fault: {
    readonly environment: 'production' | 'test'
    readonly id: string
    readonly label: string
  }): void
}

/** What a key does, in both environments. */
export interface Action {
  /** For the list of keys. */
  readonly summary: string
  /** Returns what is done, for people. */
  act(played: Played): string
}

const ENVIRONMENTS = ['test', 'production'] as const

/** The keys, but for `q` and Ctrl-C, which end the sandbox. */
export const ACTIONS: Readonly<Record<string, Action>> = {
  r: {
    summary: 'revoke all tokens',
    act({ sandbox }) {
      const revoked = ENVIRONMENTS.reduce((sum, name) => sum + sandbox[name].revoke(), 0)
      return `${revoked} ${revoked === 1 ? 'token' : 'tokens'} revoked`
    },
  },
  f: {
    summary: 'one token request gets a 503',
    act(played) {
      const isOrdered = order(played, { target: 'token', label: 'status=503 (key f)', fault: UNAVAILABLE })
      return isOrdered ? 'one token request gets a 503' : `every token request has a fault (${CLEAR})`
    },
  },
  u: {
    summary: 'one call of each API gets a 401',
    act(played) {
      const [merchant, inStore] = (['merchant', 'in-store'] as const).map((target) =>
        order(played, { target, label: 'status=401 (key u)', fault: REFUSED }),
      )
      if (merchant && inStore) return 'one call of each API gets a 401'
      if (!merchant && !inStore) return `every API call has a fault (${CLEAR})`
      return `one call of the ${merchant ? 'merchant' : 'in-store'} API gets a 401`
    },
  },
  c: {
    summary: 'clear all faults',
    act({ sandbox, standing }) {
      for (const name of ENVIRONMENTS) sandbox[name].clearFaults()
      standing.clear()
      return 'all faults cleared'
    },
  },
}

const CLEAR = 'c clears it'

const UNAVAILABLE: Fault = { kind: 'status', status: 503 }

const REFUSED: Fault = {
  kind: 'status',
  status: 401,
  headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
  body: { error: 'invalid_token' },
}

/** Orders a fault after those that wait. Returns whether it will be met. */
function order(
  { sandbox, standing, onFault }: Played,
  { target, label, fault }: { readonly target: SandboxTarget; readonly label: string; readonly fault: Fault },
): boolean {
  if (standing.has(target)) return false
  for (const environment of ENVIRONMENTS) {
    onFault({ environment, id: sandbox[environment].fail(target, fault), label })
  }
  return true
}

/**
 * Hears single keys from a terminal until the function that is returned is called, which leaves the terminal as it
 * was. Ctrl-C, which is no signal then, is heard as `q`.
 */
export function listenToKeys(stdin: Keyboard, onKey: (key: string) => void): () => void {
  // On a stream between, as what reads keys would stay on the terminal's own.
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
