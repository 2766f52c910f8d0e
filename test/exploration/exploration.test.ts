import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { FIRST_COOLDOWN_429_MS } from '../../src/token/limits/cooldown.ts'
// Loaded up front: the provider imports them on first use, which takes time that no schedule knows of.
import '../../src/token/shared/shared-token.ts'
import { forget } from '../support/recorded.ts'
import { type Choose, explore, type Run, replay } from './explorer.ts'
import { type Plan, WINDOW_MS, World } from './world.ts'
import { PAUSE_MS, WORLDS } from './worlds.ts'

const bounds = inject('deep') ? 'deep' : 'quick'
const MOST_SCHEDULES = { quick: 20_000, deep: 2_000_000 }
const { stackTraceLimit } = Error
const { random } = Math
let unhandled = 0
const onUnhandled = (): void => {
  unhandled += 1
}

beforeEach(() => {
  Math.random = () => 0 // no jitter: pauses and windows are exact. A spy would keep millions of calls
  Error.stackTraceLimit = 0 // stacks take a third of the time
  unhandled = 0
  process.on('unhandledRejection', onUnhandled)
})

afterEach(() => {
  process.off('unhandledRejection', onUnhandled)
  Error.stackTraceLimit = stackTraceLimit
  Math.random = random
})

/** A function that runs one schedule of a world, with at most so many events. */
function schedulesOf(plan: Plan, events: number): Run {
  return async (choose) => {
    const world = new World(plan, events)
    await world.run(choose).finally(forget)
    if (unhandled > 0) throw new Error('no unhandled rejection')
  }
}

describe('a small world, in every order of its events', () => {
  it.for(Object.entries(WORLDS))('%s', { timeout: 3_600_000 }, async ([name, plan]) => {
    const { [bounds]: events } = plan.events
    const from = performance.now()
    const count = await explore(schedulesOf(plan, events), { most: MOST_SCHEDULES[bounds] })
    const seconds = (performance.now() - from) / 1_000
    console.info(`${name}: all ${count} schedules of at most ${events} events, in ${seconds.toFixed(1)} s`)
  })
})

/** A failing exploration prints its choices: add them here to run that schedule alone. */
const ONCE_BROKEN: readonly {
  readonly what: string
  readonly world: string
  readonly choices: readonly string[]
}[] = [
  {
    what: 'the pause of a failed background renewal held back a rejected call',
    world: 'a call rejected in the window',
    choices: [
      'caller calls API 1',
      'token request gets no connection',
      'tokens are revoked',
      'call 1 gets its answer',
      'token request gets a token',
    ],
  },
  {
    what: 'a call that was rejected in the window had one attempt',
    world: 'a call rejected in the window',
    choices: [
      'caller calls API 1',
      'tokens are revoked',
      'call 1 gets its answer',
      'token request gets no connection',
      'token request gets no connection',
      'a timer fires',
      'token request gets a token',
    ],
  },
  {
    what: 'a 429 in the background held back no caller',
    world: 'a token in its window',
    choices: [
      'caller needs a token',
      'token request gets 429',
      `${FIRST_COOLDOWN_429_MS} ms pass`,
      'caller needs a token',
      'token request gets 429',
      `${FIRST_COOLDOWN_429_MS} ms pass`,
      'caller needs a token',
    ],
  },
  {
    what: 'a pause of 7 s, which a 429 asked for, took 10 s',
    world: 'callers without a token, and pauses',
    choices: [
      'caller needs a token',
      'token request gets 429 for 7 s',
      '7000 ms pass',
      'caller needs a token',
      'token request gets a token',
    ],
  },
  {
    what: 'one 401 for both tokens renewed at once, so that another call was not repeated with the token before',
    world: 'APIs that learn late of a new token',
    choices: [
      'caller calls API 1',
      'token request gets a token',
      'caller calls API 1',
      'caller calls API 1 in vain',
      'call 3 gets its answer',
      'call 3 gets its answer',
      'call 2 gets its answer',
      'call 2 gets its answer',
    ],
  },
  {
    what: 'a 401 for the newer token renewed nothing once the token before, which was in use again, had ended',
    world: 'APIs that learn late of a new token',
    choices: [
      'caller calls API 1',
      'token request gets a token',
      'caller calls API 1',
      'caller calls API 1 in vain',
      'call 2 gets its answer',
      'call 2 gets its answer',
      `${PAUSE_MS} ms pass`,
      `${WINDOW_MS - PAUSE_MS} ms pass`,
    ],
  },
  {
    what: 'a call was rejected with two tokens that cost nothing, and then had none requested for it',
    world: 'forced calls',
    choices: [
      'caller calls API 1',
      'call 1 gets its answer',
      'token request gets a token',
      'caller calls API 1',
      'caller forces a token',
      'token request gets a token',
      'tokens are revoked',
    ],
  },
]

describe('a schedule that broke a rule once', () => {
  it.for(ONCE_BROKEN)('$what', async ({ world, choices }) => {
    const plan = WORLDS[world] as Plan
    await replay(schedulesOf(plan, choices.length), choices)
  })
})

describe('the explorer', () => {
  const chosen = async (choose: Choose): Promise<string> => {
    const first = ['a', 'b', 'c'][choose(['a', 'b', 'c'])] as string
    return first === 'b' ? first : `${first}${choose(['0', '1'])}`
  }

  it('makes every choice, in every combination, once', async () => {
    const seen: string[] = []
    const count = await explore(async (choose) => void seen.push(await chosen(choose)), { most: 5 })
    expect({ seen, count }).toEqual({ seen: ['a0', 'a1', 'b', 'c0', 'c1'], count: 5 })
  })

  it('fails if there are more schedules than expected', async () => {
    const exploring = explore(async (choose) => void (await chosen(choose)), { most: 4 })
    await expect(exploring).rejects.toThrow('There are more than 4 schedules')
  })

  it('prints the choices of a schedule that fails, which replay it', async () => {
    const run = async (choose: Choose): Promise<void> => {
      if ((await chosen(choose)) === 'c0') throw new Error('broken')
    }
    await expect(explore(run, { most: 5 })).rejects.toThrow('Schedule 4: broken\nreplay(…, ["c","0"])')
    await expect(replay(run, ['c', '0'])).rejects.toThrow('broken')
    await replay(run, ['c', '1'])
  })
})
