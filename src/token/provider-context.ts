/** The context that the parts of a provider share. */
import type { Outlet } from '../events.ts'
import type { UsedSecrets } from '../redact.ts'

/** What the parts of a provider share besides its options. */
export interface ProviderContext extends Outlet {
  /** The client secrets and tokens used so far, to be kept out of errors and events. */
  readonly secrets: UsedSecrets
  /** Aborted when the provider is closed. */
  readonly closed: AbortSignal
}
