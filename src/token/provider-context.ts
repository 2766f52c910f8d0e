/** The context that the parts of a provider share. */
import type { Outlet } from '../events.ts'
import type { UsedSecrets } from '../redact.ts'
import type { Quotas } from './quota.ts'

/** What the parts of a provider share besides its options. */
export interface ProviderContext extends Outlet {
  /** The client secrets and tokens used so far, to be kept out of errors and events. */
  readonly secrets: UsedSecrets
  /** What the token endpoint said about its quotas. */
  readonly quotas: Quotas
  /** Aborted when the provider is closed. */
  readonly closed: AbortSignal
}
