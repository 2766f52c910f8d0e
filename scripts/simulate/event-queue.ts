/** What is to come, the earliest first: a binary heap. */

export interface Queued {
  at: number
  /** Of two at the same moment, the one queued first comes first. */
  order: number
}

export class EventQueue<Event extends Queued> {
  readonly #events: Event[] = []
  /** When each of them comes: side by side in memory, where looking at each event would take most of a run. */
  readonly #times: number[] = []
  #queued = 0

  push(event: Event): void {
    event.order = this.#queued
    this.#queued += 1
    let place = this.#events.length
    while (place > 0) {
      const above = (place - 1) >> 1
      if ((this.#times[above] as number) <= event.at) break // of the same moment, this one is the last
      this.#move(above, place)
      place = above
    }
    this.#put(event, place)
  }

  /** The next one, where it comes by then. */
  popUntil(at: number): Event | undefined {
    const first = this.#events[0]
    if (first === undefined || first.at > at) return undefined
    this.#times.pop()
    const last = this.#events.pop() as Event
    if (last !== first) this.#sink(last)
    return first
  }

  /** Puts it in the place of the first one, or below. */
  #sink(event: Event): void {
    const times = this.#times
    let place = 0
    for (let below = 1; below < times.length; below = 2 * place + 1) {
      if (below + 1 < times.length && this.#isBefore(below + 1, below)) below += 1
      const at = times[below] as number
      if (event.at < at || (event.at === at && event.order < (this.#events[below] as Event).order)) break
      this.#move(below, place)
      place = below
    }
    this.#put(event, place)
  }

  #isBefore(one: number, other: number): boolean {
    const [at, otherAt] = [this.#times[one] as number, this.#times[other] as number]
    if (at !== otherAt) return at < otherAt
    return (this.#events[one] as Event).order < (this.#events[other] as Event).order
  }

  #move(from: number, to: number): void {
    this.#events[to] = this.#events[from] as Event
    this.#times[to] = this.#times[from] as number
  }

  #put(event: Event, place: number): void {
    this.#events[place] = event
    this.#times[place] = event.at
  }
}
