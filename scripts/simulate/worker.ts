/** One variant, in a thread of its own. */
import { parentPort, workerData } from 'node:worker_threads'
import { simulate } from './fleet.ts'
import type { FromWorker, Job } from './jobs.ts'

Error.stackTraceLimit = 0 // each signal that is aborted has an error, whose stack nobody reads
const { variant, scenario } = workerData as Job
const tell = (message: FromWorker): void => parentPort?.postMessage(message)
const outcome = await simulate(variant, scenario, (progress) => tell({ progress }))
tell({ outcome })
