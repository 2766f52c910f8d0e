/** Runs variants side by side, each in a thread: they need a core each for minutes. */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Outcome } from './figures.ts'
import type { Progress } from './fleet.ts'
import type { Scenario, Variant } from './scenario.ts'

export interface Job {
  readonly variant: Variant
  readonly scenario: Scenario
}

export interface FromWorker {
  readonly progress?: Progress
  readonly outcome?: Outcome
}

/** What came of each job, in their order. */
export async function runJobs(
  jobs: readonly Job[],
  onProgress: (job: Job, progress: Progress) => void = () => {},
): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const waiting = [...jobs.entries()]
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [place, job] = next
      outcomes[place] = await runJob(job, (progress) => onProgress(job, progress))
    }
  }
  await Promise.all(Array.from({ length: Math.min(jobs.length, availableParallelism()) }, work))
  return outcomes
}

function runJob(job: Job, onProgress: (progress: Progress) => void): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: job, execArgv: [] })
    worker.on('message', ({ progress, outcome }: FromWorker) => {
      if (progress !== undefined) onProgress(progress)
      if (outcome === undefined) return
      resolve(outcome)
      worker.terminate() // processes that died with something in hand keep real timers
    })
    worker.on('error', reject)
    worker.on('exit', (code) => reject(new Error(`A thread ended with ${code} and without an outcome`)))
  })
}
