/** Supports `globalThis.fetch = createAuthFetch(…)`, also when other code wraps that later: it would call itself. */
import { AsyncLocalStorage } from 'node:async_hooks'

type Fetch = typeof fetch

/** A call that a wrapper has passed to the global fetch. */
interface Passing {
  readonly wrapper: Fetch
  /** The global fetch at that time. */
  readonly to: Fetch
  readonly outer: Passing | undefined
  hasResponse: boolean
}

const passing = new AsyncLocalStorage<Passing>()

/**
 * Wraps the global fetch. When the global fetch is the wrapper itself, or something that calls the wrapper, calls go to
 * the fetch that was global when the wrapper was created.
 *
 * @param wrap makes a wrapper of the given fetch
 */
export function wrapGlobalFetch(wrap: (wrapped: Fetch) => Fetch): Fetch {
  const before = globalThis.fetch
  /** Fetches that have called the wrapper. */
  const callers = new WeakSet<Fetch>()
  const direct = wrap((input, init) => before(input, init))
  const viaGlobal = wrap((input, init) => {
    const to = globalThis.fetch
    if (to === before || callers.has(to)) return before(input, init)
    const call: Passing = { wrapper, to, outer: innermostPending(passing.getStore()), hasResponse: false }
    const answer = passing.run(call, () => to(input, init))
    const end = (): void => {
      call.hasResponse = true
    }
    Promise.resolve(answer).then(end, end)
    return answer
  })
  const wrapper: Fetch = (input, init) => {
    const call = innermostPending(passing.getStore(), wrapper)
    if (call === undefined) return viaGlobal(input, init)
    callers.add(call.to)
    return direct(input, init)
  }
  callers.add(wrapper)
  return wrapper
}

/** The innermost call without a response: of this wrapper, or of any. */
function innermostPending(innermost: Passing | undefined, wrapper?: Fetch): Passing | undefined {
  let call = innermost
  while (call !== undefined && (call.hasResponse || (wrapper !== undefined && call.wrapper !== wrapper)))
    call = call.outer
  return call
}
