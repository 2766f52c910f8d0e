// The rows of the table of store failures: which code leads to which, and that none hides another one.
import { describe, expect, it } from 'vitest'
import { STORE_FAILURES, type StoreFailure, storeFailureOf } from '../../src/advice/store.ts'

/** The kind for a code. */
function kindFor(code: string | undefined, platform: NodeJS.Platform): string {
  const found = storeFailureOf(code, platform)
  return Object.entries(STORE_FAILURES).find(([, row]) => row === found)?.[0] ?? 'unknown-store-failure'
}

describe('the failures of stores', () => {
  it.each([
    ['EACCES', 'other-owner'],
    ['EPERM', 'other-owner'],
    ['EBUSY', 'held-files'],
    ['ERR_ACCESS_DENIED', 'store-permission'],
    ['ENOSPC', 'no-room'],
    ['EDQUOT', 'no-room'],
    ['EROFS', 'no-room'],
    ['ENOTDIR', 'no-directory'],
    ['EISDIR', 'no-directory'],
    ['ENOENT', 'no-directory'],
    ['UNREADABLE', 'damaged-entry'],
    ['NO_REDIS_CLIENT', 'no-redis-client'],
    ['ClientClosedError', 'closed-client'],
    ['ClientOfflineError', 'closed-client'],
    ['MaxRetriesPerRequestError', 'closed-client'],
    [undefined, 'no-code'],
    ['TypeError', 'unusable-client'],
    ['NOAUTH', 'redis-rights'],
    ['WRONGPASS', 'redis-rights'],
    ['NOPERM', 'redis-rights'],
    ['ERR', 'redis-error'],
    ['MOVED', 'cluster'],
    ['LOADING', 'redis-in-transition'],
    ['BUSY', 'redis-in-transition'],
    ['READONLY', 'redis-takes-no-writes'],
    ['OOM', 'redis-takes-no-writes'],
    ['ECONNRESET', 'lost-connection'],
    ['SocketClosedUnexpectedlyError', 'lost-connection'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'lost-connection'],
    ['CERT_HAS_EXPIRED', 'lost-connection'],
    ['ETIMEDOUT', 'slow-store'],
    ['ECONNREFUSED', 'no-redis'],
    ['ENOTFOUND', 'no-redis'],
    ['EIO', 'unknown-store-failure'],
  ])('with the code %s: %s', (code, kind) => {
    expect(kindFor(code, 'linux')).toBe(kind)
  })

  it.each(['EACCES', 'EPERM', 'EBUSY'])(
    'with the code %s on Windows, where a program may have the file open',
    (code) => {
      expect(kindFor(code, 'win32')).toBe('held-files')
    },
  )

  it.each(Object.entries<StoreFailure>(STORE_FAILURES))(
    'of the kind %s are found by each code, and have at most two sentences',
    (kind, { codes = [], advice, inCheck = advice }) => {
      for (const code of codes.map((one) => one.replaceAll('*', 'X')))
        expect(kindFor(code, 'linux')).toBe(kind)
      for (const text of [advice, inCheck])
        expect(text.split(/(?<=[.:]) (?=[A-Z])/).length).toBeLessThanOrEqual(2)
    },
  )
})
