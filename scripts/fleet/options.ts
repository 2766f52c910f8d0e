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

/** The options, a sentence that says what is wrong with them, or that help was asked for. */
export function readOptions(
  args: readonly string[],
  cores: number = availableParallelism(),
): FleetOptions | { readonly problem: string } | 'help' {
  let values: { processes?: string; lifetime?: string; frozen?: boolean; help?: boolean }
  try {
    ;({ values } = parseArgs({
      args: [...args],
      options: {
        processes: { type: 'string' },
        lifetime: { type: 'string' },
        frozen: { type: 'boolean' },
        help: { type: 'boolean' },
      },
    }))
  } catch (error) {
    return { problem: `${(error as Error).message.split(/\. |\n/)[0]}.` }
  }
  if (values.help) return 'help'
  const processes = wholeNumber(values.processes ?? '32', 2, 256)
  if (processes === undefined) return { problem: '--processes must be a whole number from 2 to 256.' }
  const lifetimeS = wholeNumber(values.lifetime ?? '5', 3, 300)
  if (lifetimeS === undefined)
    return { problem: '--lifetime must be a whole number of seconds from 3 to 300.' }
  const callsPerSecond = Math.min(MOST_CALLS_PER_PROCESS, (CALLS_PER_CORE * cores) / processes)
  return { processes, lifetimeS, frozen: values.frozen ?? false, everyMs: 1_000 / callsPerSecond }
}

function wholeNumber(text: string, least: number, most: number): number | undefined {
  const number = Number(text)
  return /^\d+$/.test(text) && number >= least && number <= most ? number : undefined
}
