/** How the tests of shared tokens begin. */
import { hkdfSync } from 'node:crypto'
import { CompactEncrypt } from 'jose'
import { expect } from 'vitest'
import { granted, MERCHANT_URL, SECRET } from '../token/harness.ts'
import { Fleet, type Process, quiet } from './fleet.ts'

export interface Held {
  readonly fleet: Fleet
  readonly giveBack: () => void
  /** What the holder does in the end. */
  write(): void
  readonly token: string
}

/** There is no token, and the lease is in another's hands. */
export async function heldByAnother(ms: number): Promise<Held> {
  const fleet = new Fleet()
  const { store } = fleet
  const { token } = await fleet.begin()
  const key = store.tokenKey
  const { value, ttlMs } = store.entry(key) ?? { value: '', ttlMs: 0 }
  store.remove(key)
  return { fleet, token, giveBack: store.hold(key, ms), write: () => store.put(key, value, ttlMs) }
}

/** Processes with one token, `one` and `other` the first of them. */
export async function sharing(count = 1) {
  const fleet = new Fleet()
  const processes: (Process & { readonly token: string })[] = []
  for (let n = 0; n < count; n += 1) processes.push(await fleet.begin())
  const [one, other = one] = processes as [Process & { readonly token: string }, ...Process[]]
  return { fleet, processes, one, other, ...one }
}

/** Two processes with one token, for which the first one has another by now. */
export async function oneAhead() {
  const { fleet, one, other, token } = await sharing(2)
  const newer = await one.provider.renewToken(token, { url: MERCHANT_URL })
  await quiet()
  fleet.store.asked.length = 0
  return { fleet, one, other, token, newer: String(newer?.value) }
}

export function longLived({ leases = true } = {}): Fleet {
  const fleet = new Fleet({ leases })
  fleet.endpoint.otherwise = granted({ expires_in: 10 * 86_400 })
  return fleet
}

/**
 * An API rejects what is the current token of the fleet, which this process has taken from the store by then:
 * whether the token endpoint gives another. With `null` for a url it is not known which API that is.
 */
export async function rejected(
  fleet: Fleet,
  { provider, url = MERCHANT_URL }: Process & { readonly url?: string | null },
): Promise<boolean> {
  const before = fleet.endpoint.count
  let token = (await provider.getToken()).value
  for (;;) {
    const newer = await provider.renewToken(token, url === null ? {} : { url })
    await quiet()
    if (newer === undefined || fleet.endpoint.count > before) return newer !== undefined
    token = newer.value
  }
}

/** Two processes, the first of which has just renewed. */
export async function oneRenewed(leases = true): Promise<{ fleet: Fleet; one: Process; other: Process }> {
  const fleet = longLived({ leases })
  const one = await fleet.begin()
  const other = await fleet.begin()
  expect(await rejected(fleet, one)).toBe(true)
  return { fleet, one, other }
}

/** An entry for a name, encrypted with the key that is derived from the client secret. */
export async function encryptedByHand(key: string, content: unknown): Promise<string> {
  const client = key.split('.').at(-2) ?? ''
  const derived = hkdfSync('sha256', SECRET, client, `merchant-auth v1 entry ${key}`, 32)
  return await new CompactEncrypt(Buffer.from(JSON.stringify(content)))
    .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
    .encrypt(new Uint8Array(derived))
}
