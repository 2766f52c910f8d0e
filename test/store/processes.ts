/** Real processes that share a token: each has an event loop, connections and clocks of its own. */
import { type ChildProcess, fork } from 'node:child_process'
import { startSandbox } from 'merchant-auth/testing'
import { expect, inject, onTestFinished } from 'vitest'
import type { Message, Work } from './worker.ts'

const MEMBERS = 4

/** Starts a process, which ends with the test. */
export function startWorker(work: Work, onMessage: (message: Message) => void): ChildProcess {
  const child = fork(new URL('worker.ts', import.meta.url), [JSON.stringify(work)])
  child.on('message', (message) => onMessage(message as Message))
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

/** Processes that start together, and one that starts later, share one token request. */
export async function expectShared(store: Work['store']): Promise<void> {
  await using sandbox = await startSandbox({ tokenLatencyMs: 50 })
  const { environment, clientId, clientSecret } = sandbox.test
  const failures: string[] = []
  const start = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const child = startWorker({ store, options: { environment, clientId, clientSecret } }, (message) => {
        if ('failure' in message) failures.push(message.failure)
        else resolve()
      })
      child.once('exit', (code) => reject(new Error(`A process has ended with ${code}`)))
    })

  await Promise.all(Array.from({ length: MEMBERS }, start))
  await start()
  // On a busy machine a process that cannot reach the store in time requests a token of its own.
  expect(sandbox.test.counts.token).toBeLessThanOrEqual(1 + failures.length)
  if (inject('quiet')) expect(failures).toEqual([])
}
