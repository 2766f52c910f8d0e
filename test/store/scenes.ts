/** Initial situations for the tests of shared tokens. */
import { granted, MERCHANT_URL } from '../token/harness.ts'
import { Fleet, type Process, quiet } from './fleet.ts'

export interface LeaseHeld {
  readonly fleet: Fleet
  readonly releaseLease: () => void
  /** Writes the token of the lease holder. */
  write(): void
  readonly token: string
}

/** The store has no token, and another process holds the lease for `ms`. */
export async function leaseHeldByAnother(ms: number): Promise<LeaseHeld> {
  const fleet = new Fleet()
  const { store } = fleet
  const { token } = await fleet.begin()
  const key = store.tokenKey
  const { value, ttlMs } = store.entry(key) ?? { value: '', ttlMs: 0 }
  store.remove(key)
  return { fleet, token, releaseLease: store.hold(key, ms), write: () => store.put(key, value, ttlMs) }
}

/** Processes that share a token; `one` and `other` are the first two. */
export async function sharing(count = 1) {
  const fleet = new Fleet()
  const processes: (Process & { readonly token: string })[] = []
  for (let n = 0; n < count; n += 1) processes.push(await fleet.begin())
  const [one, other = one] = processes as [Process & { readonly token: string }, ...Process[]]
  return { fleet, processes, one, other, ...one }
}

/** Two processes that shared a token, after the first one replaced it. */
export async function oneHasNewerToken() {
  const { fleet, one, other, token } = await sharing(2)
  const newer = await one.provider.renewToken(token, { url: MERCHANT_URL })
  await quiet()
  fleet.store.asked.length = 0
  return { fleet, one, other, token, newer: String(newer?.value) }
}

/** A fleet whose tokens live for 10 days. */
export function longLived({ leases = true } = {}): Fleet {
  const fleet = new Fleet({ leases })
  fleet.endpoint.otherwise = granted({ expires_in: 10 * 86_400 })
  return fleet
}

/**
 * An API rejects the fleet's current token, which this process acquires from the store first. Resolves with whether the
 * token endpoint issued another one. With `null` for `url` the API is unknown.
 */
export async function renewedAfterRejection(
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

/** An API rejects every token of a process, until that may renew none for so long (ms). */
export async function renewedUntilLimited(fleet: Fleet, process: Process, forMs: number): Promise<void> {
  for (let waitMs = 0; waitMs < forMs; ) {
    await fleet.skip(waitMs)
    while (await renewedAfterRejection(fleet, process));
    const suppressed = process.events.findLast((event) => event.type === 'renewal-suppressed')
    waitMs = Number(suppressed?.nextRenewalMs)
  }
}
