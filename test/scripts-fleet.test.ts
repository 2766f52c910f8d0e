/** The fleet's verdicts: what they let pass, and above all what they do not; and its command line. */
import { describe, expect, it } from 'vitest'
import { readOptions } from '../scripts/fleet/options.ts'
import { type Figures, noFigures } from '../scripts/fleet/protocol.ts'
import { tableOf, verdictsOf } from '../scripts/fleet/results.ts'
import { FROZEN, RUNS, type RunPlan, type RunResult } from '../scripts/fleet/run.ts'

const PROCESSES = 4
const LIFETIME_MS = 5_000

function ran(
  mark: RunPlan['mark'],
  { tokenRequests, processes = [] }: { tokenRequests?: number; processes?: Partial<Figures>[] },
): RunResult {
  const plan = [...RUNS, FROZEN].find((each) => each.mark === mark) ?? FROZEN
  return {
    plan,
    processes: Array.from({ length: PROCESSES }, (_, nth) => ({
      ...noFigures(),
      calls: 100,
      storeFailures: mark === 'c' ? 1 : 0,
      ...processes[nth],
    })),
    tokenRequests: tokenRequests ?? 2,
    lifetimeMs: LIFETIME_MS,
    lateMs: 3,
  }
}

function brokenIn(result: RunResult): string[] {
  return verdictsOf(result)
    .filter(({ good }) => !good)
    .map(({ text }) => text)
}

describe('what a run of the fleet has to show', () => {
  it.each([
    ['a', 7, false],
    ['a', 8, true],
    ['a', 12, true],
    ['b', 1, false],
    ['b', 2, true],
    ['b', 3, true],
  ] as const)('in run %s with %i token requests of 4 processes: %s', (mark, tokenRequests, good) => {
    const broken = brokenIn(ran(mark, { tokenRequests }))
    expect(broken).toEqual(good ? [] : [expect.stringContaining(`${tokenRequests} token requests`)])
  })

  it('in run b no token that is requested while another is fresh, but by a process that could not reach the store', () => {
    const requested = (at: number, storeFailures = 0) => {
      const processes = [{ requestedAt: [0, 3_750] }, { requestedAt: [at], storeFailures }]
      return brokenIn(ran('b', { tokenRequests: 3, processes }))
    }
    expect(requested(7_500)).toEqual([])
    expect(requested(7_400)).toEqual([
      '3 token requests for the whole fleet, 1 while a token was fresh (expected: 2 or more, 0)',
    ])
    expect(requested(7_400, 1)).toEqual([])
  })

  it.each(['b', 'c', 'd'] as const)('in run %s not one failed call, whatever it ended with', (mark) => {
    const processes = [
      { failures: { 'status 401': 1 }, storeFailures: 1 },
      { failures: { 'status 401': 1, ECONNRESET: 1 } },
    ]
    expect(brokenIn(ran(mark, { processes }))).toContain(
      '3 of 400 calls failed: 2 × status 401, 1 × ECONNRESET',
    )
  })

  it('in run b no verdict on so few calls that they say nothing', () => {
    const processes = Array.from({ length: PROCESSES }, () => ({ calls: 9 }))
    expect(brokenIn(ran('b', { processes }))).toEqual(['only 36 calls: this machine is too slow'])
  })

  it('when Redis is killed, that every process emitted store-failed', () => {
    expect(brokenIn(ran('c', {}))).toEqual([])
    expect(brokenIn(ran('c', { processes: [{ storeFailures: 0 }] }))).toEqual([
      '3 processes emitted store-failed (expected: all)',
    ])
  })

  it('when Redis hangs for a while, that some process emitted store-failed', () => {
    expect(brokenIn(ran('d', { processes: [{ storeFailures: 1 }] }))).toEqual([])
    expect(brokenIn(ran('d', {}))).toEqual(['0 processes emitted store-failed (expected: 1 or more)'])
  })
})

describe('the table of the fleet', () => {
  it('has the sums, medians and longest of all processes, and fits into 80 columns with all four runs', () => {
    const processes = [10, 20, 30, 40].map((ms) => ({
      firstTokenMs: ms,
      longestCallMs: ms * 2,
      unauthorized: 1,
      fromStore: 2,
    }))
    const table = tableOf((['a', 'b', 'c', 'd'] as const).map((mark) => ran(mark, { processes })))
    const lines = table.split('\n')
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80)
    const rows = new Map(
      lines.map((line) => line.trim().split(/ {2,}/)).map(([what, ...rest]) => [what, rest]),
    )
    expect(rows.get('calls')).toEqual(['400', '400', '400', '400'])
    expect(rows.get('401 seen by the caller')?.[1]).toBe('4')
    expect(rows.get('tokens from the store')?.slice(0, 2)).toEqual(['–', '8'])
    expect(rows.get('wait for the first token')?.[1]).toBe('30 ms')
    expect(rows.get('the longest')?.[1]).toBe('40 ms')
    expect(rows.get('the longest call')?.[1]).toBe('80 ms')
  })

  it('says so where a process never had a token', () => {
    expect(tableOf([ran('b', {})])).toMatch(/the longest +never$/m)
  })
})

describe('the command line of the fleet', () => {
  it('has defaults, and takes what is in its ranges', () => {
    expect(readOptions([])).toMatchObject({ processes: 32, lifetimeS: 5, frozen: false })
    expect(readOptions(['--processes', '256', '--lifetime', '300', '--frozen'])).toMatchObject({
      processes: 256,
      lifetimeS: 300,
      frozen: true,
    })
    expect(readOptions(['--processes=2', '--lifetime=3'])).toMatchObject({ processes: 2, lifetimeS: 3 })
    expect(readOptions(['--help', '--processes', '1'])).toBeUndefined()
  })

  it.each([
    ['8', 2, 50],
    ['32', 4, 100],
  ])('lets each of %s processes on %i cores call every %i ms', (processes, cores, everyMs) => {
    expect(readOptions(['--processes', processes], cores)).toMatchObject({ everyMs })
  })

  it.each([
    [['--processes', '1'], '--processes must be a whole number from 2 to 256.'],
    [['--processes', '257'], '--processes must be a whole number from 2 to 256.'],
    [['--processes', '8.5'], '--processes must be a whole number from 2 to 256.'],
    [['--processes', ''], '--processes must be a whole number from 2 to 256.'],
    [['--lifetime', '2'], '--lifetime must be a whole number from 3 to 300.'],
    [['--lifetime', '301'], '--lifetime must be a whole number from 3 to 300.'],
    [['--lifetime', '1e1'], '--lifetime must be a whole number from 3 to 300.'],
    [['--processes'], "Option '--processes <value>' argument missing"],
    [['--slow'], "Unknown option '--slow'"],
    [['8'], "Unexpected argument '8'"],
  ])('rejects %j with a sentence', (args, problem) => {
    expect(() => readOptions(args)).toThrow(problem)
  })
})
