/** Process warnings about mistakes that would otherwise go unnoticed: each is emitted once, with a code. */
import type { StoreFailedEvent, TokenWithheldEvent } from './events.ts'
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

/** A call that was sent without the token, although it probably needed it. */
export interface CallWithoutToken {
  readonly reason: TokenWithheldEvent['reason']
  /** Its URL, for messages. */
  readonly url: string
  /** The header that carries the token. */
  readonly header: string
  /** The base URLs in `apiUrls`. */
  readonly baseUrls: readonly string[]
  /** The status of its response, if that is why. */
  readonly status?: number
  /** How many calls there were, if that is why. */
  readonly calls?: number
}

/** Warns about a call that was sent without the token: what was called, and why; then what to change. */
export function warnWithheld(call: CallWithoutToken): void {
  const { url, calls, status } = call
  const what =
    calls === undefined
      ? `A call to ${url} was sent without the token`
      : `${calls} calls, the last one to ${url}, were sent without the token, and no call needed it`
  const returned = status === undefined ? '' : ` and returned ${status}`
  const { because, change } = explanationOf(call)
  process.emitWarning(`${what}${returned}: ${because}.\n${change}`, { code: 'MERCHANT_AUTH_WITHHELD' })
}

function explanationOf({ reason, header, baseUrls }: CallWithoutToken): { because: string; change: string } {
  const bases = baseUrls.join(', ')
  switch (reason) {
    case 'destination':
      return {
        because: `its URL is not below a base URL in apiUrls (${bases})`,
        change:
          'If it needs the token, add its base URL to apiUrls, or call one that is there: ' +
          'localhost and 127.0.0.1, and the hosts of two environments, are different.',
      }
    case 'own-header':
      return {
        because: `the caller set the header ${header}`,
        change: `Remove the code that sets it, for example an old interceptor, on calls to ${bases}.`,
      }
    case 'own-credentials':
      return {
        because: "axios' auth option, or a user name in the URL, replaces the token",
        change: `Remove it from calls to ${bases}.`,
      }
  }
}

/** Warns about a token store that failed while nobody listened to the events. */
export function warnStoreFailed({ operation, code }: Pick<StoreFailedEvent, 'operation' | 'code'>): void {
  process.emitWarning(
    `The token store failed (${operation}${code === undefined ? '' : `, ${code}`}), so this process requests tokens of its ` +
      'own.\nCheck the store. Further failures are store-failed events only: listen to them with onEvent.',
    { code: 'MERCHANT_AUTH_STORE_FAILED' },
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
