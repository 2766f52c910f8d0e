/** Process warnings about mistakes that would otherwise go unnoticed: each is emitted once, with a code. */

import { inManual } from '../base/manual-link.ts'
import { LEAST_SECRET, UsedSecrets } from '../base/redact.ts'
import type { TokenWithheldEvent } from './events.ts'

/** Node.js prints the detail below the message. A log that records only `message` stays short. */
export function warn(code: `MERCHANT_AUTH_${string}`, message: string): void {
  process.emitWarning(message, { code, detail: `See ${inManual(code.toLowerCase())}` })
}

const weak = new UsedSecrets()

/** Warns about a short client secret, once for each. */
export function warnIfWeak(secret: string): void {
  if (secret.length >= LEAST_SECRET || !weak.add(secret)) return
  warn(
    'MERCHANT_AUTH_WEAK_SECRET',
    `A client secret of fewer than ${LEAST_SECRET} characters can be guessed, and is not hidden in errors and events if ` +
      'a server echoes it. Ask for another one.',
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
  readonly status?: number | undefined
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
  warn('MERCHANT_AUTH_WITHHELD', `${what}${returned}: ${because}.\n${change}`)
}

/** A path below a base URL gets no token if it contains one. */
const ENCODED_SEPARATOR = /%2f|%5c/i

/** Why a call goes without the token, and what to change. */
export function explanationOf({ reason, url, header, baseUrls }: CallWithoutToken): {
  readonly because: string
  readonly change: string
} {
  const bases = baseUrls.join(', ')
  switch (reason) {
    case 'destination':
      if (
        ENCODED_SEPARATOR.test(url) &&
        baseUrls.some((base) => url.startsWith(base.endsWith('/') ? base : `${base}/`))
      )
        return {
          because:
            'its path contains an encoded slash or backslash, which some servers decode before they route the call',
          change: `Send that value in the query, or set the header ${header} in the call.`,
        }
      return {
        because: `its URL is not below a base URL in apiUrls (${bases})`,
        change:
          'If it needs the token, add its base URL to apiUrls (MERCHANT_AUTH_API_URLS), or call one that is there: ' +
          'localhost and 127.0.0.1, and the hosts of two environments, are different.',
      }
    case 'own-header':
      return {
        because: `the caller set the header ${header}`,
        change: `Remove the code that sets it, for example an old interceptor, or headers passed on from an incoming request, on calls to ${bases}.`,
      }
    case 'own-credentials':
      return {
        because: "axios' auth option, or a user name in the URL, replaces the token",
        change: `Remove it from calls to ${bases}.`,
      }
  }
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
  warn(
    'MERCHANT_AUTH_PROVIDERS',
    `${count} token providers for the same client, audience and token endpoint (${endpoint}) exist at once, and each ` +
      'requests its own token. Create one at startup, and share it: one for each request costs a token for each, even if it ' +
      'is closed.',
  )
}

/** Stops counting a provider that was closed. */
export function uncountProvider(provider: object, client: string): void {
  if (collected.unregister(provider)) uncount(client)
}
