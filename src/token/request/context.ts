/** What the parts of a provider share besides its options, and what belongs to one acquisition. */

import type { UsedSecrets } from '../../base/redact.ts'
import type { Emitter } from '../../events/emit.ts'
import type { RequestLimits } from '../limits/request-limits.ts'
import type { RejectedTokens } from './access-token.ts'

export interface ProviderContext extends Emitter {
  /** The client secrets and tokens used so far, to be kept out of errors and events. */
  readonly secrets: UsedSecrets
  /** When a token may be requested. */
  readonly limits: RequestLimits
  /** The tokens that APIs rejected. */
  readonly rejected: RejectedTokens
}

export interface AcquisitionContext extends ProviderContext {
  /** Aborted when the provider is closed, or when this acquisition is lost. */
  readonly signal: AbortSignal
}
