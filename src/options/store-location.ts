/** Where processes share the token, as `MERCHANT_AUTH_STORE` and `--store` name it: a directory of this machine, or Redis. */
import { resolve } from 'node:path'
import type { Flaw } from '../base/errors.ts'
import { operatorPath } from '../base/operator-path.ts'
import { parseUrl } from '../base/urls.ts'
import { prepareDirectory } from '../store/file/directory.ts'
import { storeOfFiles } from '../store/file/entries.ts'
import type { TokenStore } from '../store/token-store.ts'

/** Where a store is. */
export interface StoreLocation {
  readonly kind: 'directory' | 'redis'
  /** The absolute path, or the URL, which may contain a password. */
  readonly place: string
  readonly flaw?: undefined
}

/** A location that cannot be used. */
interface FlawedLocation {
  readonly kind?: undefined
  readonly flaw: Flaw
}

function invalid(reason: string): FlawedLocation {
  return { flaw: { kind: 'invalid', reason } }
}

const PLACE =
  'must be the path of a directory, such as /var/lib/my-service/tokens, or a URL such as redis://localhost:6379 or ' +
  'rediss://user:password@host:6379/0'
const BARE = `${PLACE}; a directory in the working directory is written ./tokens, and no store is an unset variable`
const NOT_ENCODED =
  'must be a URL whose user name and password are percent-encoded: / as %2F, # as %23, ? as %3F, % as %25'

/** Where the store is that this text names; undefined without a text. */
export function locateStore(text: string | undefined): StoreLocation | FlawedLocation | undefined {
  return text === undefined ? undefined : locationOf(text.trim())
}

/**
 * Where the store is that this text names; undefined without a text. A directory is created if it is missing. One that
 * cannot be created is not a flaw: the operations of its store fail, and no call does.
 */
export function prepareStore(text: string | undefined): StoreLocation | FlawedLocation | undefined {
  const location = locateStore(text)
  const flaw = location?.kind === 'directory' ? directoryFlaw(location.place) : undefined
  return flaw === undefined ? location : { flaw }
}

function locationOf(text: string): StoreLocation | FlawedLocation {
  if (/^rediss?:/.test(text)) return redisLocation(text)
  const { path, flaw } = operatorPath(text)
  if (flaw !== undefined) return { flaw }
  // A name with a colon is a URL, or a host with its port. One letter is a drive of Windows.
  if (/^[\w+.-]{2,}:/.test(path)) return invalid(PLACE)
  // A bare word, such as `redis` or `none`, was hardly meant as a directory.
  return text.startsWith('file:') || /^\.|[\\/]/.test(path)
    ? { kind: 'directory', place: resolve(path) }
    : invalid(BARE)
}

function redisLocation(text: string): StoreLocation | FlawedLocation {
  // Parsers end the user name and the password at the first of these characters, and take what follows for something else.
  if (/^\w+:\/\/[^@]*[/#?][^@]*@/.test(text)) return invalid(NOT_ENCODED)
  const url = parseUrl(text)
  if (url === undefined || !/^\w+:\/\/[^/?#]+(?:\/\d*)?(?:\?[^#]*)?$/.test(text)) return invalid(PLACE)
  return isDecodable(url.username + url.password) ? { kind: 'redis', place: text } : invalid(NOT_ENCODED)
}

/** Clients of Redis decode user name and password, and throw `URI malformed` where they cannot. */
function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

function directoryFlaw(directory: string): Flaw | undefined {
  try {
    const flaw = prepareDirectory(directory)
    return flaw && { ...flaw, reason: `is ${directory}, and ${flaw.reason}` }
  } catch {
    return undefined
  }
}

/** The store at a location. Redis needs a client, which only the caller has. */
export function storeAt({ kind, place }: StoreLocation): TokenStore {
  return kind === 'directory' ? storeOfFiles(place) : STORE_WITHOUT_CLIENT
}

async function failWithoutClient(): Promise<never> {
  const message =
    'MERCHANT_AUTH_STORE is the URL of a Redis, which needs a client: pass store: createRedisTokenStore(client)'
  throw Object.assign(new Error(message), { code: 'NO_REDIS_CLIENT' })
}

/** A store that fails, so that a Redis that nobody connected to does not go unnoticed. */
const STORE_WITHOUT_CLIENT: TokenStore = { get: failWithoutClient, set: failWithoutClient }
