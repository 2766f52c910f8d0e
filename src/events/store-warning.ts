/** The process warning about a token store that failed: only providers with a store load its texts. */
import { storeFailureOf } from '../advice/store.ts'
import type { StoreFailedEvent } from './events.ts'
import { warn } from './warnings.ts'

const failedStores = new WeakSet<object>()

/** Warns about a token store that failed while nobody listened to the events, once for each, however many providers share it. */
export function warnStoreFailed(
  store: object,
  { operation, code }: Pick<StoreFailedEvent, 'operation' | 'code'>,
): void {
  if (failedStores.has(store)) return
  failedStores.add(store)
  warn(
    'MERCHANT_AUTH_STORE_FAILED',
    `The token store failed (${operation}${code === undefined ? '' : `, ${code}`}), so this process may request tokens of ` +
      `its own.\n${storeFailureOf(code).advice} Further failures are store-failed events only: listen to them with onEvent.`,
  )
}
