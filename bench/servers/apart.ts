/** A service in a process of its own, so that its work does not delay the client under measurement. */
import { fork } from 'node:child_process'
import type { Service } from '../contender.ts'
import { type Counts, type ServiceOptions, startService } from './service.ts'

export interface ApartService {
  readonly service: Service
  /** What it was asked for so far. */
  counts(): Promise<Counts>
  close(): Promise<void>
}

/** Starts one. */
export async function startServiceApart(options: ServiceOptions): Promise<ApartService> {
  const child = fork(new URL(import.meta.url), [JSON.stringify(options)], {
    execArgv: ['--no-warnings'],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const next = <Message>(): Promise<Message> =>
    new Promise((resolve, reject) => {
      const onExit = (code: number | null): void => reject(new Error(`The service ended with code ${code}`))
      child.once('exit', onExit)
      child.once('message', (message) => {
        child.off('exit', onExit)
        resolve(message as Message)
      })
    })
  const service = await next<Service>()
  return {
    service,
    counts() {
      child.send('counts')
      return next<Counts>()
    },
    async close() {
      const exited = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await exited
    },
  }
}

if (import.meta.main) {
  const { service, counts } = await startService(JSON.parse(process.argv[2] ?? '{}') as ServiceOptions)
  process.send?.(service)
  process.on('message', () => process.send?.(counts))
  process.on('disconnect', () => process.exit()) // whoever started it is gone
}
