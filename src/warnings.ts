/** Process warnings about mistakes that would otherwise go unnoticed: each is emitted once, with a code. */
import { LEAST_SECRET, UsedSecrets } from './redact.ts'

const weak = new UsedSecrets()

/** Warns about a short client secret, once for each. */
export function warnIfWeak(secret: string): void {
  if (secret.length >= LEAST_SECRET || !weak.add(secret)) return
  process.emitWarning(
    `A client secret of fewer than ${LEAST_SECRET} characters can be guessed, and is not hidden in errors and events if ` +
      'a server echoes it. Ask for another one.',
    { code: 'MERCHANT_AUTH_WEAK_SECRET' },
  )
}

const withheld = /* @__PURE__ */ new WeakSet<object>()

/** Warns about a call without the token on the origin of an API, once for each provider. */
export function warnWithheld(provider: object, shownUrl: () => string): void {
  if (withheld.has(provider)) return
  withheld.add(provider)
  process.emitWarning(
    `A call to ${shownUrl()} was sent without the token: an API is on the same origin, but the URL is not below an ` +
      'entry of apiUrls. If it needs the token, add its base URL to apiUrls.',
    { code: 'MERCHANT_AUTH_WITHHELD' },
  )
}

/** So many calls with a header of their own, before any call needed the token, are a mistake. */
const MOST_OWN_HEADERS = 10

/** Warns about an attachment whose calls all have a header of their own. */
export function warnOwnHeader(count: number, header: string): void {
  if (count !== MOST_OWN_HEADERS) return
  process.emitWarning(
    `${count} calls had their own ${header} header, and none needed the token. Remove the code that sets it.`,
    { code: 'MERCHANT_AUTH_OWN_HEADER' },
  )
}

/** More providers than this for one client are a mistake: probably one for each request. */
const MOST_PROVIDERS = 8

/** How many providers are alive, by client. */
const alive = new Map<string, number>()
const warned = new Set<string>()
const collected = /* @__PURE__ */ new FinalizationRegistry<string>(uncount)

function uncount(client: string): void {
  const count = (alive.get(client) ?? 0) - 1
  if (count > 0) alive.set(client, count)
  else alive.delete(client)
}

/** Counts a provider until it is closed or garbage collected. Warns about too many for one client, once for each client. */
export function countProvider(provider: object, client: string, endpoint: string): void {
  const count = (alive.get(client) ?? 0) + 1
  alive.set(client, count)
  collected.register(provider, client, provider)
  if (count <= MOST_PROVIDERS || warned.has(client)) return
  warned.add(client)
  process.emitWarning(
    `${count} token providers for the same client, audience and token endpoint (${endpoint}) exist at once, and each ` +
      'requests its own token. Create one at startup, and share it; close() unused ones.',
    { code: 'MERCHANT_AUTH_PROVIDERS' },
  )
}

/** Stops counting a provider that was closed. */
export function uncountProvider(provider: object, client: string): void {
  if (collected.unregister(provider)) uncount(client)
}
