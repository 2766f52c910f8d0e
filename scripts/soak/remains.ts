/** What a run leaves behind: heap, listeners, open handles, rejections that nobody handled, warnings. */
import { getEventListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** How long what is closed may take to go. */
const MOST_WAIT_MS = 30_000

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** The heap in use (bytes) after garbage collection. */
export async function heapUsed(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    collect()
    await new Promise((resolve) => setImmediate(resolve)) // finalizers, weak references
  }
  return process.memoryUsage().heapUsed
}

export class Remains {
  readonly unhandled: unknown[] = []
  readonly warnings: string[] = []
  readonly #handles: Map<string, number>
  readonly #listeners: Map<string, number>
  readonly #onRejection = (reason: unknown): void => {
    this.unhandled.push(reason)
  }
  readonly #onWarning = ({ name, message }: Error): void => {
    this.warnings.push(`${name}: ${message}`)
  }

  constructor() {
    this.#handles = handles()
    this.#listeners = listeners()
    process.on('unhandledRejection', this.#onRejection)
    process.on('warning', this.#onWarning)
  }

  /** The warnings of too many listeners at a time. */
  get maxListeners(): string[] {
    return this.warnings.filter((warning) => warning.startsWith('MaxListeners'))
  }

  /** Ends the watch. */
  end(): void {
    process.off('unhandledRejection', this.#onRejection)
    process.off('warning', this.#onWarning)
  }

  /** The handles that were not open at the beginning, once they had the time to close. */
  async openHandles(): Promise<string[]> {
    const until = performance.now() + MOST_WAIT_MS
    let open = beyond(handles(), this.#handles)
    while (open.length > 0 && performance.now() < until) {
      await sleep(50)
      open = beyond(handles(), this.#handles)
    }
    return open
  }

  /** The listeners of the process that were not there at the beginning. After `end`. */
  processListeners(): string[] {
    return beyond(listeners(), this.#listeners)
  }
}

/** The listeners that calls left on a signal. */
export function listenersOf(signal: AbortSignal): number {
  return getEventListeners(signal, 'abort').length
}

function handles(): Map<string, number> {
  const counts = new Map<string, number>()
  for (const name of process.getActiveResourcesInfo()) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}

function listeners(): Map<string, number> {
  return new Map(process.eventNames().map((name) => [String(name), process.listenerCount(name)]))
}

function beyond(now: Map<string, number>, before: Map<string, number>): string[] {
  return [...now]
    .map(([name, count]) => [name, count - (before.get(name) ?? 0)] as const)
    .filter(([, more]) => more > 0)
    .map(([name, more]) => `${more} × ${name}`)
}
