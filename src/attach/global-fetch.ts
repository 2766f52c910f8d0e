/** `globalThis.fetch` as a wrapper of it calls it: looked up at each call, and never in a circle. */
import { AsyncLocalStorage } from 'node:async_hooks'

type Fetch = typeof fetch

/** A call that a wrapper has handed to the global fetch, and that has not been answered yet. */
interface Passing {
  readonly wrapper: Fetch
  readonly url: string
  readonly outer: Passing | undefined
}

const passing = new AsyncLocalStorage<Passing>()

/**
 * Wraps the global fetch. It may be replaced by the wrapper itself, or by something that calls the wrapper: then the call
 * goes to the fetch that was there when the wrapper was made.
 *
 * @param wrap makes the wrapper, with the fetch that it is to call
 */
export function wrapGlobalFetch(wrap: (wrapped: Fetch) => Fetch): Fetch {
  const before = globalThis.fetch
  const wrapped = wrap((input, init) => {
    const current = globalThis.fetch
    if (current === before || current === wrapper) return before(input, init)
    const call = { wrapper, url: urlOf(input), outer: passing.getStore() }
    return passing.run(call, () => current(input, init))
  })
  const wrapper: Fetch = (input, init) =>
    hasComeBack(wrapper, input) ? before(input, init) : wrapped(input, init)
  return wrapper
}

function hasComeBack(wrapper: Fetch, input: Parameters<Fetch>[0]): boolean {
  for (let call = passing.getStore(); call !== undefined; call = call.outer)
    if (call.wrapper === wrapper && call.url === urlOf(input)) return true
  return false
}

/** In one form, whether it was given as text, URL or Request. */
function urlOf(input: Parameters<Fetch>[0]): string {
  const url = typeof input === 'object' && 'url' in input ? input.url : String(input)
  return URL.canParse(url) ? new URL(url).href : url
}
