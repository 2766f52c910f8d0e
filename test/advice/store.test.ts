// The rows of the table of store failures: which code leads to which, and that none hides another one.
import { describe, expect, it } from 'vitest'
import { STORE_FAILURES, storeFailureOf } from '../../src/advice/store.ts'

describe('the failures of stores', () => {
  it.each([
    ['EACCES', 'other-owner'],
    ['EPERM', 'other-owner'],
    ['EBUSY', 'held-files'],
    ['ERR_ACCESS_DENIED', 'store-permission'],
    ['ENOSPC', 'disk-full'],
    ['EDQUOT', 'disk-full'],
    ['EROFS', 'read-only-disk'],
    ['ENOTDIR', 'not-a-directory'],
    ['EISDIR', 'not-a-directory'],
    ['ENOENT', 'no-directory'],
    ['UNREADABLE', 'damaged-entry'],
    ['NO_REDIS_CLIENT', 'no-redis-client'],
    ['ClientClosedError', 'closed-client'],
    ['ClientOfflineError', 'offline-client'],
    ['MaxRetriesPerRequestError', 'offline-client'],
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
    expect(storeFailureOf(code, 'linux').kind).toBe(kind)
  })

  it.each(['EACCES', 'EPERM', 'EBUSY'])(
    'with the code %s on Windows, where a program may have the file open',
    (code) => {
      expect(storeFailureOf(code, 'win32').kind).toBe('held-files')
    },
  )

  it.each(STORE_FAILURES.map((row) => [row.kind, row] as const))(
    'of the kind %s are found by each code that the manual shows, and have at most two sentences',
    (kind, { shown, advice, inCheck = advice }) => {
      const codes = [...shown.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code.replaceAll('…', 'X'))
      for (const code of codes.length > 0 ? codes : [undefined])
        expect((['linux', 'win32'] as const).map((one) => storeFailureOf(code, one).kind)).toContain(kind)
      for (const text of [advice, inCheck])
        expect(text.split(/(?<=[.:]) (?=[A-Z])/).length).toBeLessThanOrEqual(2)
    },
  )
})
