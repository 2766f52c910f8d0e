/** The script for fleets of processes: the verdicts on a run, the table of results and the command line. */
import { describe, expect, it } from 'vitest'
import { readOptions } from '../scripts/fleet/options.ts'
import { type Figures, noFigures } from '../scripts/fleet/protocol.ts'
import { tableOf, verdictsOf } from '../scripts/fleet/results.ts'
import { FROZEN, RUNS, type RunPlan, type RunResult } from '../scripts/fleet/run.ts'

const PROCESSES = 4
const LIFETIME_MS = 5_000

function runResult(
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

function failedVerdicts(result: RunResult): string[] {
  return verdictsOf(result)
    .filter(({ good }) => !good)
    .map(({ text }) => text)
}

describe('the fleet verdicts', () => {
  it.each([
    ['a', 7, false],
    ['a', 8, true],
    ['a', 12, true],
    ['b', 1, false],
    ['b', 2, true],
    ['b', 3, true],
  ] as const)('pass run %s with %i token requests by 4 processes: %s', (mark, tokenRequests, good) => {
    const failed = failedVerdicts(runResult(mark, { tokenRequests }))
    expect(failed).toEqual(good ? [] : [expect.stringContaining(`${tokenRequests} token requests`)])
  })

  it('fail run b if a process requests a token while another is fresh, unless its store failed', () => {
    const requested = (at: number, storeFailures = 0) => {
      const processes = [{ requestedAt: [0, 3_750] }, { requestedAt: [at], storeFailures }]
      return failedVerdicts(runResult('b', { tokenRequests: 3, processes }))
    }
    expect(requested(7_500)).toEqual([])
    expect(requested(7_400)).toEqual([
      '3 token requests for the whole fleet, 1 while a token was fresh (expected: 2 or more, 0)',
    ])
    expect(requested(7_400, 1)).toEqual([])
  })

  it.each(['b', 'c', 'd'] as const)(
    'fail run %s if any call failed, and count the failures by status and error code',
    (mark) => {
      const processes = [
        { failures: { 'status 401': 1 }, storeFailures: 1 },
        { failures: { 'status 401': 1, ECONNRESET: 1 } },
      ]
      expect(failedVerdicts(runResult(mark, { processes }))).toContain(
        '3 of 400 calls failed: 2 × status 401, 1 × ECONNRESET',
      )
    },
  )

  it('fail run b if the machine was too slow to make enough calls', () => {
    const processes = Array.from({ length: PROCESSES }, () => ({ calls: 9 }))
    expect(failedVerdicts(runResult('b', { processes }))).toEqual(['only 36 calls: this machine is too slow'])
  })

  it('fail run c, which kills Redis, unless every process emitted store-failed', () => {
    expect(failedVerdicts(runResult('c', {}))).toEqual([])
    expect(failedVerdicts(runResult('c', { processes: [{ storeFailures: 0 }] }))).toEqual([
      '3 processes emitted store-failed (expected: all)',
    ])
  })

  it('fail run d, in which Redis hangs, unless at least one process emitted store-failed', () => {
    expect(failedVerdicts(runResult('d', { processes: [{ storeFailures: 1 }] }))).toEqual([])
    expect(failedVerdicts(runResult('d', {}))).toEqual([
      '0 processes emitted store-failed (expected: 1 or more)',
    ])
  })
})

describe('the fleet results table', () => {
  it('shows sums, medians and maximums of all processes, and fits four runs into 80 columns', () => {
    const processes = [10, 20, 30, 40].map((ms) => ({
      firstTokenMs: ms,
      longestCallMs: ms * 2,
      unauthorized: 1,
      fromStore: 2,
    }))
    const table = tableOf((['a', 'b', 'c', 'd'] as const).map((mark) => runResult(mark, { processes })))
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

  it('shows "never" if a process never acquired a token', () => {
    expect(tableOf([runResult('b', {})])).toMatch(/the longest +never$/m)
  })
})

describe('the fleet command line', () => {
  it('has defaults, and accepts values within its ranges', () => {
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
  ])('rejects %j: %s', (args, problem) => {
    expect(() => readOptions(args)).toThrow(problem)
  })
})
