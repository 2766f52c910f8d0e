/** A contender in a process of its own, with one client, as a service has it. The process lives on and makes its calls in turns. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent } from 'node:http'
import type { Contender, Service } from './contenders/contender.ts'
import { contenders } from './contenders/index.ts'
import { handwrittenUndici, undiciWithoutInterceptor } from './contenders/price-undici.ts'
import { stayOnCore } from './cores.ts'
import { eachOf } from './part.ts'

/** The contenders that can take turns. */
const participants: readonly Contender[] = [undiciWithoutInterceptor, handwrittenUndici, ...contenders]

export const IN_FLIGHT = 8
const CORE = 0
/** Another one, as client and service would take turns on one. */
export const CORE_OF_SERVICE = 1
const TIMEOUT_MS = 60_000
/** A turn: calls that refill the processor's caches, as the process before it used them, and then those that count. */
export interface Turn {
  readonly uncounted: number
  readonly calls: number
}

export interface Participant {
  /** Makes the calls, eight at a time, and resolves with the CPU time (µs) of one, garbage collection included. */
  takeTurn(turn: Turn): Promise<number>
  end(): Promise<void>
}

export async function startParticipant(name: string, service: Service): Promise<Participant> {
  const child = fork(new URL(import.meta.url), [JSON.stringify({ name, service })], {
    execArgv: ['--no-warnings'],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const message = async (): Promise<unknown> => {
    const [received] = await Promise.race([
      once(child, 'message', { signal: AbortSignal.timeout(TIMEOUT_MS) }),
      exited.then(([code]) => Promise.reject(new Error(`The process of ${name} ended with code ${code}`))),
    ])
    return received
  }
  await message() // it is ready
  return {
    async takeTurn(turn) {
      child.send(turn)
      return Number(await message())
    },
    async end() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

if (import.meta.main) {
  stayOnCore(CORE)
  const { name, service } = JSON.parse(process.argv[2] ?? '') as { name: string; service: Service }
  const contender = participants.find((one) => one.name === name)
  if (!contender) throw new Error(`No contender is called ${name}`)
  const client = await contender.create(service, { axios: { httpAgent: new Agent({ keepAlive: true }) } })
  const call = async (): Promise<void> => {
    const status = await client.call()
    if (status !== 200) throw new Error(`${name}: a call was answered ${status}`)
  }
  const makeCalls = (count: number) => eachOf(Array.from({ length: count }), IN_FLIGHT, call)
  const takeTurn = async ({ uncounted, calls }: Turn): Promise<void> => {
    await makeCalls(uncounted)
    const start = process.cpuUsage()
    await makeCalls(calls)
    const { user, system } = process.cpuUsage(start)
    process.send?.((user + system) / calls)
  }
  await call() // gets the token
  process.on('message', takeTurn) // a call that fails ends the process
  process.on('disconnect', () => process.exit()) // the benchmark has ended
  process.send?.('ready')
}
