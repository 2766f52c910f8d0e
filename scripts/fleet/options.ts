/** The command line of the fleet. */
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'

export const USAGE = `Usage: npm run fleet -- [options]

Starts many processes of one service at once, with real tokens that live for a
few seconds, and counts what they ask of the token endpoint: first each for
itself, then with one Redis for all, then with a Redis that is killed half-way.
Needs redis-server. More than about 8 processes for each core of this machine
need longer lifetimes, too.

  --processes N   how many processes, from 2 to 256 (default: 32)
  --lifetime N    how long a token lives, from 3 to 300 seconds (default: 5);
                  each run takes two lifetimes
  --frozen        one more run, in which Redis hangs for a while
  --help          this text`

/** So many calls a second leave a small machine time for the processes that make and answer them. */
const CALLS_PER_CORE = 80
const MOST_CALLS_PER_PROCESS = 20

export interface FleetOptions {
  readonly processes: number
  readonly lifetimeS: number
  readonly frozen: boolean
  /** From one call of a process to the next (ms). */
  readonly everyMs: number
}

/** Each run takes so many lifetimes. */
export const LIFETIMES = 2

/**
 * The options; undefined where help was asked for.
 *
 * @throws Error with a sentence that says what is wrong
 */
export function readOptions(
  args: readonly string[],
  cores: number = availableParallelism(),
): FleetOptions | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      processes: { type: 'string', default: '32' },
      lifetime: { type: 'string', default: '5' },
      frozen: { type: 'boolean', default: false },
      help: { type: 'boolean' },
    },
  })
  if (values.help) return undefined
  const processes = wholeNumber('--processes', values.processes, [2, 256])
  const lifetimeS = wholeNumber('--lifetime', values.lifetime, [3, 300])
  const callsPerSecond = Math.min(MOST_CALLS_PER_PROCESS, (CALLS_PER_CORE * cores) / processes)
  return { processes, lifetimeS, frozen: values.frozen, everyMs: 1_000 / callsPerSecond }
}

function wholeNumber(name: string, text: string, [least, most]: readonly [number, number]): number {
  const number = Number(text)
  if (/^\d+$/.test(text) && number >= least && number <= most) return number
  throw new Error(`${name} must be a whole number from ${least} to ${most}.`)
}
