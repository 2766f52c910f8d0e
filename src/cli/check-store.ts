/** What `check` finds out about the store: which one it is, whether it can be written, and what it holds for this client. */
import { accessSync, constants, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, relative } from 'node:path'
import { FINDINGS } from '../advice/findings.ts'
import { storeFailureOf } from '../advice/store.ts'
import { shownUrl } from '../base/redact.ts'
import type { Emit } from '../events/emit.ts'
import type { StoreFailedEvent } from '../events/events.ts'
import { resolveOptions, type TokenProviderOptions } from '../options/options.ts'
import { locateStore, prepareStore, type StoreLocation } from '../options/store-location.ts'
import { storeErrorCode, UNREADABLE } from '../store/token-store.ts'
import type { EncryptedStore } from '../token/shared/encrypted-store.ts'
import { ageOf, entryOfClient, type SharedEntry } from '../token/shared/shared-token.ts'
import { told } from './diagnosis.ts'
import type { Finding } from './report.ts'
import { INSTALL_CLIENT, NO_CLIENT, openStore } from './store.ts'
import { instantText } from './terminal.ts'

/** How long (ms) the entry and the lease live that show whether the store can be written. */
const PROBE_MS = 1_000

interface StoreContext {
  /** The client secret, which the entries are encrypted with. */
  readonly secret: string
  readonly signal: AbortSignal
  /** Makes a text fit to be shown. */
  readonly show: (text: string) => string
}

/**
 * Where the store is. The directory is not created: what root creates, the service cannot use. For the same reason root does not
 * touch that of another user.
 */
export const inspectStore: typeof locateStore = (text) => {
  const location = locateStore(text)
  if (location?.kind !== 'directory') return location
  const { place } = location
  const isUntouched = missingDirectory(place) !== undefined || (isRoot() && isOfAnotherUser(place))
  return isUntouched ? location : prepareStore(text)
}

/** Whether the directory is missing, and why it could not be created. Creates nothing. */
function missingDirectory(directory: string): { readonly failure: string | undefined } | undefined {
  try {
    if (statSync(directory, { throwIfNoEntry: false }) !== undefined) return undefined
    const parent = existingParent(directory)
    if (!statSync(parent).isDirectory()) return { failure: 'ENOTDIR' }
    accessSync(parent, constants.W_OK | constants.X_OK)
    return { failure: undefined }
  } catch (error) {
    return { failure: storeErrorCode(error) }
  }
}

function existingParent(path: string): string {
  const parent = dirname(path)
  const isMissing = parent !== path && statSync(parent, { throwIfNoEntry: false }) === undefined
  return isMissing ? existingParent(parent) : parent
}

/** What a finding has besides its text; what is not of it is data. */
interface Details extends Pick<Finding, 'advice' | 'cause'> {
  readonly writable?: boolean
  readonly token?: { readonly remainsMs: number; readonly expiresAt: number } | null | undefined
}

/** A store that cannot be used is a warning: no call fails because of it. */
export async function storeFinding(
  location: StoreLocation,
  options: TokenProviderOptions,
  { secret, signal, show }: StoreContext,
): Promise<Finding> {
  const { kind, place } = location
  const shown = show(kind === 'directory' ? place : shownUrl(place))
  const name = kind === 'directory' ? `the directory ${shown}` : shown
  const found = (result: Finding['result'], text: string, details: Details): Finding => {
    const { advice, cause, ...data } = details
    return {
      step: 'store',
      result,
      text: `${name} ${text}`,
      advice,
      cause,
      data: { kind, place: shown, ...data },
    }
  }
  const unusable = (what: string, cause: string | undefined): Finding =>
    found('warning', `cannot be ${what}${cause === undefined ? '' : ` (${cause})`}\n${NO_CALL_FAILS}`, {
      advice: told(storeFailureOf(cause)),
      cause,
      writable: false,
    })
  const usable = (text: string, token: Details['token']): Finding =>
    isOpenToOthers(location)
      ? found('info', `${text}\nit is outside of the user's profile`, {
          ...FINDINGS['outside-profile'],
          writable: true,
          token,
        })
      : found('ok', text, { writable: true, token })

  if (kind === 'directory' && isOfAnotherUser(place))
    return found('warning', 'belongs to another user, so it was not tried', FINDINGS['not-this-user'])
  const missing = kind === 'directory' ? missingDirectory(place) : undefined
  if (missing?.failure !== undefined) return unusable('created', missing.failure)
  if (missing !== undefined) {
    const text = 'does not exist yet: the first process that needs a token creates it'
    return isRoot() ? found('info', text, { ...FINDINGS['not-this-user'], token: null }) : usable(text, null)
  }
  const opened = await openStore(location, signal)
  if (opened.kind === 'no-client')
    return found('warning', `cannot be checked: it ${NO_CLIENT}`, { advice: INSTALL_CLIENT, writable: false })
  if (opened.kind === 'failed') return unusable('used', opened.code)

  let failure: StoreFailedEvent['code']
  const { store } = opened
  const resolved = resolveOptions(options)
  const context = {
    encryptionKeys: [secret],
    emit: (given: Parameters<Emit>[0]): void => {
      const event = typeof given === 'function' ? given() : given
      if (event.type === 'store-failed') failure = event.code
    },
  }
  try {
    const remainsMs = await tokenRemainsMs(entryOfClient(store, resolved, context))
    const isUnreadable = failure === UNREADABLE
    const isWritable = await probe(entryOfClient(store, resolved, { ...context, name: 'check' }))
    if (!isWritable) return unusable('written', failure)
    if (isUnreadable)
      return found('warning', 'can be written\nits entry for this client cannot be decrypted', {
        advice: told(storeFailureOf(UNREADABLE)),
        writable: true,
      })
    if (remainsMs === undefined)
      return usable('can be written\nit holds no token for this client and this client secret', null)
    const expiresAt = Math.round(Date.now() + remainsMs)
    const validity = `valid for ${Math.round(remainsMs / 1000)} s, until ${instantText(expiresAt / 1000)}`
    return usable(`can be written\nits token for this client is ${validity}`, { remainsMs, expiresAt })
  } catch {
    return unusable('used', failure)
  } finally {
    opened.close()
  }
}

/** On Windows, which has no modes, other users may write outside of a user's profile. */
function isOpenToOthers({ kind, place }: StoreLocation): boolean {
  if (kind !== 'directory' || process.platform !== 'win32') return false
  const path = relative(homedir(), place)
  return path.startsWith('..') || isAbsolute(path)
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}

/** Root can write it, too, but the service could not read what root writes. */
function isOfAnotherUser(directory: string): boolean {
  const user = process.getuid?.() // not on Windows
  try {
    return user !== undefined && statSync(directory).uid !== user
  } catch {
    return false // it is missing, or cannot be used
  }
}

/** How long the client's token is valid; undefined if there is none. */
async function tokenRemainsMs(store: EncryptedStore<SharedEntry>): Promise<number | undefined> {
  for await (const entry of store.read()) {
    const remainsMs = (entry.content.token?.remainsMs ?? 0) - ageOf(entry)
    if (remainsMs > 0) return remainsMs
  }
  return undefined
}

/** Whether the store can be written, and has leases, as a process needs them that requests a token. */
async function probe(store: EncryptedStore<SharedEntry>): Promise<boolean> {
  try {
    await store.write(() => ({ content: { ttlMs: PROBE_MS, limits: { renewals: {} } }, ttlMs: PROBE_MS }))
    const release = await store.lease(PROBE_MS) // another check may have it
    await release?.()
    return true
  } catch {
    return false
  }
}

const NO_CALL_FAILS = 'no call fails, but each process that cannot use the store requests a token of its own'
