/** How an environment of the sandbox behaves until told otherwise: lifetimes, latencies, where the token is looked for. */
import * as z from 'zod/mini'
import { copied, headerName, schemeName } from '../checks.ts'
import { MAX_TIMER_MS } from '../clock.ts'

import { checked } from './checked.ts'

/** What `SandboxEnvironment.configure` takes. Holds for requests that arrive from then on. */
export interface SandboxSettings {
  /**
   * `expires_in` of the tokens issued from now on: whole seconds, 1 to 2^31-1. Tokens issued before keep theirs.
   * @default 3600
   */
  readonly lifetimeSeconds: number
  /**
   * How long (ms, 0 to 2^31-1) the token endpoint waits before it judges a request and issues a token.
   * @default 0
   */
  readonly tokenLatencyMs: number
  /**
   * How long (ms, 0 to 2^31-1) the APIs wait before they answer, or a function that says so, asked for each
   * request. The token is judged before the wait, when the request arrives.
   * @default 0
   */
  readonly apiLatencyMs: number | (() => number)
  /**
   * Whether the APIs answer 401 to every token, however good; or those of them that do.
   * @default false
   */
  readonly rejectAllTokens: boolean | readonly ('merchant' | 'in-store')[]
  /**
   * The request header in which the APIs look for the token.
   * @default 'Authorization'
   */
  readonly header: string
  /**
   * What stands before the token in that header, in any case; `''`: the bare token.
   * @default 'Bearer'
   */
  readonly scheme: string
}

export const DEFAULT_SETTINGS: SandboxSettings = {
  lifetimeSeconds: 3600,
  tokenLatencyMs: 0,
  apiLatencyMs: 0,
  rejectAllTokens: false,
  header: 'Authorization',
  scheme: 'Bearer',
}

const LIFETIME = 'must be a whole number of seconds from 1 to 2147483647'
const DURATION = 'must be a number of milliseconds from 0 to 2147483647'
const MAX_SECONDS = 2 ** 31 - 1

const durationMs = z.number(DURATION).check(z.gte(0, DURATION), z.lte(MAX_TIMER_MS, DURATION))

const shape = copied(
  z.partial(
    z.strictObject(
      {
        lifetimeSeconds: z.int(LIFETIME).check(z.gte(1, LIFETIME), z.lte(MAX_SECONDS, LIFETIME)),
        tokenLatencyMs: durationMs,
        apiLatencyMs: z.union(
          [durationMs, z.custom<() => number>((value) => typeof value === 'function')],
          `${DURATION}, or a function that yields one`,
        ),
        rejectAllTokens: z.union(
          [z.boolean(), z.array(z.enum(['merchant', 'in-store']))],
          "must be true, false or a list of 'merchant' and 'in-store'",
        ),
        header: headerName,
        scheme: schemeName,
      },
      'must be an object',
    ),
  ),
)

/** The settings with the changes made. What is undefined stays as it was. */
export function changedSettings(settings: SandboxSettings, changes: unknown): SandboxSettings {
  const given = checked('The settings of the sandbox', 'settings', shape, changes)
  return {
    lifetimeSeconds: given.lifetimeSeconds ?? settings.lifetimeSeconds,
    tokenLatencyMs: given.tokenLatencyMs ?? settings.tokenLatencyMs,
    apiLatencyMs: given.apiLatencyMs ?? settings.apiLatencyMs,
    rejectAllTokens: given.rejectAllTokens ?? settings.rejectAllTokens,
    header: given.header ?? settings.header,
    scheme: given.scheme ?? settings.scheme,
  }
}

/** How long (ms) the API waits with one answer. */
export function apiLatencyOf({ apiLatencyMs }: SandboxSettings): number {
  if (typeof apiLatencyMs === 'number') return apiLatencyMs
  return checked('What the function apiLatencyMs yields', 'apiLatencyMs', durationMs, apiLatencyMs())
}
