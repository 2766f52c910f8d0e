/** `globalThis.fetch` as a wrapper of it calls it: looked up at each call, and never in a circle. */
import { AsyncLocalStorage } from 'node:async_hooks'

type Fetch = typeof fetch

/** A call that a wrapper has handed to the global fetch. */
interface Passing {
  readonly wrapper: Fetch
  /** The global fetch at that time. */
  readonly to: Fetch
  readonly outer: Passing | undefined
  answered: boolean
}

const passing = new AsyncLocalStorage<Passing>()

/**
 * Wraps the global fetch. It may be replaced by the wrapper itself, or by something that calls the wrapper: then calls go
 * to the fetch that was there when the wrapper was made.
 *
 * @param wrap makes the wrapper, with the fetch that it is to call
 */
export function wrapGlobalFetch(wrap: (wrapped: Fetch) => Fetch): Fetch {
  const before = globalThis.fetch
  /** Fetches that have called the wrapper. */
  const callers = new WeakSet<Fetch>()
  const direct = wrap((input, init) => before(input, init))
  const looking = wrap((input, init) => {
    const to = globalThis.fetch
    if (to === before || callers.has(to)) return before(input, init)
    const call: Passing = { wrapper, to, outer: unanswered(passing.getStore()), answered: false }
    const answer = passing.run(call, () => to(input, init))
    const end = (): void => {
      call.answered = true
    }
    Promise.resolve(answer).then(end, end)
    return answer
  })
  const wrapper: Fetch = (input, init) => {
    const call = unanswered(passing.getStore(), wrapper)
    if (call === undefined) return looking(input, init)
    callers.add(call.to)
    return direct(input, init)
  }
  callers.add(wrapper)
  return wrapper
}

/** The innermost call that has not been answered: of this wrapper, or of any. */
function unanswered(innermost: Passing | undefined, wrapper?: Fetch): Passing | undefined {
  let call = innermost
  while (call !== undefined && (call.answered || (wrapper !== undefined && call.wrapper !== wrapper)))
    call = call.outer
  return call
}
