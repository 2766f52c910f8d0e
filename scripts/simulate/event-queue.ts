/** What is to come, the earliest first: a binary heap. */

export interface Queued {
  at: number
  /** Of two at the same moment, the one queued first comes first. */
  order: number
}

export class EventQueue<Event extends Queued> {
  readonly #heap: Event[] = []
  #queued = 0

  push(event: Event): void {
    event.order = this.#queued
    this.#queued += 1
    const heap = this.#heap
    let place = heap.length
    while (place > 0) {
      const above = (place - 1) >> 1
      const parent = heap[above] as Event
      if (isBefore(parent, event)) break
      heap[place] = parent
      place = above
    }
    heap[place] = event
  }

  /** The next one, where it comes by then. */
  popUntil(at: number): Event | undefined {
    const heap = this.#heap
    const first = heap[0]
    if (first === undefined || first.at > at) return undefined
    const last = heap.pop()
    if (last !== undefined && last !== first) this.#sink(last)
    return first
  }

  #sink(event: Event): void {
    const heap = this.#heap
    let place = 0
    for (let below = 1; below < heap.length; below = 2 * place + 1) {
      const right = below + 1
      if (right < heap.length && isBefore(heap[right] as Event, heap[below] as Event)) below = right
      const child = heap[below] as Event
      if (isBefore(event, child)) break
      heap[place] = child
      place = below
    }
    heap[place] = event
  }
}

function isBefore(one: Queued, other: Queued): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order)
}
