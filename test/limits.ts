/** Each limit of the package: where it is defined, what it means, which test proves it, and what docs/behavior.md says of it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../scripts/packed.ts'

export interface Limit {
  readonly name: string
  /** In `src/`. */
  readonly file: string
  readonly meaning: string
  /** In `test/`: the only file that knows the value. The others import the constant, or wait until the limit is over. */
  readonly test: string
  /** What docs/behavior.md says, with `#` in the place of the value. */
  readonly phrases: readonly string[]
}

type Row = readonly [name: string, test: string, meaning: string, ...phrases: string[]]

const REQUEST_LIMITS = 'token/request-limits.test.ts'

const ROWS: Readonly<Record<string, readonly Row[]>> = {
  'token/limits/cooldown.ts': [
    [
      'FIRST_COOLDOWN_MS',
      REQUEST_LIMITS,
      'the cooldown after a first failure; it doubles with each further one',
      '- **Cooldown** after a failed token request: #, doubled',
    ],
    [
      'MAX_COOLDOWN_TEMPORARY_MS',
      REQUEST_LIMITS,
      'the longest cooldown after a failure that waiting may fix',
      'by each further one up to #;',
    ],
    [
      'MAX_COOLDOWN_LASTING_MS',
      REQUEST_LIMITS,
      'the longest cooldown after a failure that waiting rarely fixes',
      '; up to # if waiting does not help (4xx,',
    ],
    [
      'MAX_RETRY_AFTER_MS',
      REQUEST_LIMITS,
      'how much of a Retry-After counts, unless a 429 has it',
      'A longer `Retry-After` counts up to #.',
    ],
    [
      'FIRST_COOLDOWN_429_MS',
      REQUEST_LIMITS,
      'the cooldown after a first 429 that names no time; it doubles with each further 429',
      'not the first in a row: #, doubled by each further 429',
    ],
    [
      'MAX_COOLDOWN_429_MS',
      REQUEST_LIMITS,
      'the longest cooldown after a 429 that names no time',
      'by each further 429 up to #, or',
    ],
    [
      'MIN_RETRY_AFTER_429_MS',
      REQUEST_LIMITS,
      'the shortest cooldown after a 429 that names a time',
      'exactly that long, at least #,',
    ],
    [
      'MAX_RETRY_AFTER_429_MS',
      REQUEST_LIMITS,
      'the longest cooldown after a 429 that names a time',
      'at most #, shared by a store',
    ],
  ],
  'token/limits/renewals.ts': [
    [
      'BUCKET',
      REQUEST_LIMITS,
      'how many renewals may follow one another',
      'An API has # renewals',
      'the one before | #: at 0',
    ],
    [
      'REFILL_MS',
      REQUEST_LIMITS,
      'how long it takes until the bucket gets a renewal back',
      'and gets one back every #;',
      'if the bucket is empty (#)',
    ],
    [
      'FIRST_DOUBT',
      REQUEST_LIMITS,
      'n, the 401s in a row and the seconds that renew in doubt; it doubles with each renewal that failed or did not help',
      'n is #; each further renewal',
      'in doubt, n = #',
      'at 0, #, 12, 28, 60',
    ],
    ['MAX_DOUBT', REQUEST_LIMITS, 'the largest n', 'does not help doubles it, to #.'],
    [
      'MAX_ROW_MS',
      REQUEST_LIMITS,
      'how long after its first 401 a row that is shorter than n renews',
      'if it comes # or more after the',
    ],
    ['LEAST_ROW', REQUEST_LIMITS, 'how many 401s such a row has at least', 'in a row of at least #;'],
    [
      'MAX_DOUBT_MS',
      REQUEST_LIMITS,
      'how long after the last renewal a 401 renews, whatever the API accepts',
      'in any case if it comes # after the last renewal',
      'accepts any token (#)',
    ],
  ],
  'token/limits/request-limits.ts': [
    [
      'BACKGROUND_PAUSE_SHARE',
      REQUEST_LIMITS,
      'the pause after a failed background renewal, as a part of the time that is left',
      'renewal**: # of the time that is left',
    ],
    [
      'MIN_BACKGROUND_PAUSE_MS',
      REQUEST_LIMITS,
      'the shortest pause after a failed background renewal',
      '(at least #, at most',
    ],
    [
      'MAX_BACKGROUND_PAUSE_MS',
      REQUEST_LIMITS,
      'the longest pause after a failed background renewal',
      'at most #, plus or minus',
    ],
    [
      'BACKGROUND_PAUSE_SPREAD',
      REQUEST_LIMITS,
      'by which part of it, at random, that pause is longer or shorter',
      'plus or minus # at random',
    ],
  ],
  'token/client-credentials-provider.ts': [
    ['MAX_ROUNDS', 'token/lifetime.test.ts', 'how many acquisitions a call waits for'],
    [
      'STORE_MS',
      'token/single-flight.test.ts',
      'how long an acquisition with a store takes at most besides its request',
    ],
  ],
  'token/request/access-token.ts': [
    ['WINDOW_SHARE', 'token/background-renewal.test.ts', 'the refresh window, as a part of the lifetime'],
    ['MAX_WINDOW_MS', 'token/background-renewal.test.ts', 'the longest refresh window'],
    [
      'MAX_GIVEN_WINDOW_SHARE',
      'token/background-renewal.test.ts',
      'the longest refresh window that an option sets',
    ],
    [
      'WINDOW_SPREAD',
      'token/background-renewal.test.ts',
      'by which part of it, at random, the refresh window is shorter',
    ],
    ['MARGIN_SHARE', 'token/lifetime.test.ts', 'the margin before the expiry, as a part of the lifetime'],
    ['MAX_MARGIN_MS', 'token/lifetime.test.ts', 'the longest margin'],
    ['MAX_GIVEN_MARGIN_SHARE', 'token/lifetime.test.ts', 'the longest margin that an option sets'],
    [
      'STORE_FAILURE_SHARE',
      'token/shared-renewal.test.ts',
      'the part of the window in which the background does not wait for a store that fails',
    ],
    [
      'MAX_REJECTED',
      'token/shared-renewal.test.ts',
      'how many rejected tokens are not acquired from the store',
    ],
  ],
  'token/request/token-request.ts': [
    ['FIRST_PAUSE_MS', 'token/token-request.test.ts', 'the longest pause before the first retry; it doubles'],
    [
      'MAX_PAUSE_SHARE',
      'token/token-request.test.ts',
      'the longest pause before a retry, as a part of timeoutMs',
      'at most # of `timeoutMs`',
    ],
    [
      'EXPIRED_PAUSE_MS',
      'token/token-response.test.ts',
      'the shortest pause after a token without life',
      '# at least for a token without life',
    ],
  ],
  'token/request/token-response.ts': [
    ['MAX_ANSWER_BYTES', 'token/token-response.test.ts', 'how much of a response is read'],
    ['MAX_LIFETIME_MS', 'token/token-response.test.ts', 'the longest lifetime'],
    ['MAX_REASONS', 'token/token-response.test.ts', 'how many texts of an error body are in a message'],
    ['MAX_DEPTH', 'token/token-response.test.ts', 'how deep in an error body those texts are'],
  ],
  'token/single-flight.ts': [
    [
      'LOST_AFTER_MS',
      'token/single-flight.test.ts',
      'how long after its longest time an acquisition is lost',
    ],
    [
      'AFTER_FREEZE_MS',
      'token/single-flight.test.ts',
      'how long it may still end after the process stood still',
    ],
  ],
  'token/shared/encrypted-store.ts': [
    ['OPERATION_MS', 'token/encrypted-store.test.ts', 'how long an operation of the store may take'],
    [
      'FIRST_OPERATION_MS',
      'token/encrypted-store.test.ts',
      'how long the first operation of the store may take',
      'waits for it, # at most',
    ],
  ],
  'token/shared/shared-token.ts': [
    ['LOOK_EVERY_MS', 'token/shared-lease.test.ts', 'how often a process that waits for a lease looks again'],
    ['LEASE_BEYOND_REQUEST_MS', 'token/shared-lease.test.ts', 'how long a lease lasts beyond `timeoutMs`'],
    ['GRACE_MS', 'token/shared-lease.test.ts', 'how long beyond it other processes wait'],
    [
      'LOOK_AGAIN_MS',
      'token/shared-pause.test.ts',
      'how often a call looks for a token that may not be there',
      'one call of each provider in # waits for it',
    ],
    ['MIN_ENTRY_MS', 'token/shared-token.test.ts', 'how long an entry lives at least'],
  ],
  'attach/authorize.ts': [
    ['MAX_SENDS', 'token/worked-examples.test.ts', 'how often a call is sent', 'is sent at most # times'],
  ],
  'attach/axios/log-output.ts': [
    ['MAX_CAUSES', 'attach/axios-log-output.test.ts', 'in how many causes of an error its request is hidden'],
  ],
  'attach/held-body.ts': [
    [
      'MAX_HELD_BYTES',
      'attach/scenarios/held-401.test.ts',
      'how much of a 401 is read while its call waits',
      'the 401 has more than #',
    ],
    ['MAX_DRAINING_MS', 'attach/fetch.test.ts', 'how long the rest of a 401 is read after a renewal'],
  ],
  'attach/sent-headers.ts': [
    ['MOST', 'attach/two-attachments.test.ts', 'how many headers of its attachments a provider remembers'],
  ],
  'attach/withheld.ts': [
    [
      'MOST_OWN_HEADERS',
      'events/warnings.test.ts',
      'how many calls with a header of their own are a mistake',
    ],
  ],
  'base/quota.ts': [
    [
      'RESERVED_SHARE',
      'token/quota.test.ts',
      'the part of a quota that is for callers without a token',
      ', # or less is left**',
    ],
  ],
  'options/options.ts': [
    ['DEFAULT_TIMEOUT_MS', 'options/options.test.ts', 'the default of `timeoutMs`'],
    ['DEFAULT_RETRIES', 'options/options.test.ts', 'the default of `retries`'],
  ],
  'events/warnings.ts': [
    ['MOST_PROVIDERS', 'events/warnings.test.ts', 'how many providers for one client are no mistake'],
  ],
  'store/operation-queue.ts': [
    [
      'DEFAULT_SLOTS',
      'store/operation-queue.test.ts',
      "how many operations of a caller's store are under way",
    ],
    [
      'MAX_QUEUE_MS',
      'store/operation-queue.test.ts',
      'how long an operation waits until the store counts as one that hangs',
    ],
  ],
  'base/redact.ts': [
    ['MAX_CAUSES', 'base/redact.test.ts', 'how many causes of an error are redacted and kept'],
    ['MAX_ERRORS', 'base/redact.test.ts', 'how many errors of an AggregateError are redacted and kept'],
    ['MAX_SECRETS', 'base/redact.test.ts', 'how many recent secrets are searched for'],
    ['LEAST_SECRET', 'base/redact.test.ts', 'how many characters a secret has that is searched for'],
  ],
}

export const LIMITS: readonly Limit[] = Object.entries(ROWS).flatMap(([file, rows]) =>
  rows.map(([name, test, meaning, ...phrases]) => ({ name, file, meaning, test, phrases })),
)

const UNITS: Readonly<Record<string, number>> = { SECOND_MS: 1_000, MINUTE_MS: 60_000, HOUR_MS: 3_600_000 }

/** The constants of a file in `src/` whose values are numbers, or products of numbers and units. */
export function constantsIn(file: string): ReadonlyMap<string, number> {
  const source = readFileSync(join(root, 'src', file), 'utf8')
  const constants = source.matchAll(/^(?:export )?const ([A-Z][A-Z\d_]+)(?:: number)? =\s+(\S.*)$/gm)
  const productOf = (text: string): number =>
    text
      .split(' * ')
      .map((factor) => UNITS[factor] ?? Number(factor.replaceAll('_', '')))
      .reduce((product, factor) => product * factor)
  return new Map(
    [...constants]
      .map(([, name = '', text = '']) => [name, productOf(text)] as const)
      .filter(([, value]) => !Number.isNaN(value)),
  )
}
