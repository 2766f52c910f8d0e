/** The adapters that attachAuth puts in the place of the caller's, and what they stand for. */
import type { AxiosAdapter, AxiosAdapterOption } from './axios-types.ts'
import type { AttachContext } from './context.ts'

const attached = new WeakMap<
  AxiosAdapter,
  { readonly original: AxiosAdapterOption | undefined; readonly context: AttachContext }
>()

/** An adapter of ours, and the attachment that it belongs to. */
interface Attached {
  readonly adapter: AxiosAdapter
  readonly context: AttachContext
}

/** The adapter option that one of ours stands for; any other is itself. */
export function originalAdapter(given: AxiosAdapterOption | undefined): AxiosAdapterOption | undefined {
  const own = typeof given === 'function' ? attached.get(given) : undefined
  return own === undefined ? given : own.original
}

/** Whether an adapter is one of ours that sends the token to this URL. */
export function attachesTo(given: AxiosAdapterOption | undefined, url: string): boolean {
  const own = typeof given === 'function' ? attached.get(given) : undefined
  return own !== undefined && own.context.destinations.apiOf(url) !== undefined
}

/** Our adapters, made once for each adapter option: for names, which axios copies, and for functions. */
export class OwnAdapters {
  readonly #byName = new Map<string | undefined, AxiosAdapter>()
  readonly #byFunction = new WeakMap<AxiosAdapter, AxiosAdapter>()
  /** An instance has the same one for all calls, as a rule. */
  #last: { readonly original: AxiosAdapterOption | undefined; readonly adapter: AxiosAdapter } | undefined

  get(original: AxiosAdapterOption | undefined): AxiosAdapter | undefined {
    const last = this.#last
    if (last !== undefined && isSame(original, last.original)) return last.adapter
    const adapter =
      typeof original === 'function' ? this.#byFunction.get(original) : this.#byName.get(nameOf(original))
    if (adapter !== undefined) this.#last = { original, adapter }
    return adapter
  }

  set(original: AxiosAdapterOption | undefined, { adapter, context }: Attached): void {
    attached.set(adapter, { original, context })
    const name = nameOf(original)
    if (typeof original === 'function') this.#byFunction.set(original, adapter)
    else if (name !== undefined) this.#byName.set(name, adapter)
  }
}

function isSame(one: AxiosAdapterOption | undefined, other: AxiosAdapterOption | undefined): boolean {
  if (!Array.isArray(one) || !Array.isArray(other)) return one === other
  return one.length === other.length && one.every((adapter, index) => adapter === other[index])
}

/** What names an adapter option for good; undefined where nothing does, such as a list with a function in it. */
function nameOf(original: AxiosAdapterOption | undefined): string | undefined {
  if (typeof original === 'function') return undefined
  if (original === undefined || typeof original === 'string') return original ?? ''
  return original.some((one) => typeof one === 'function') ? undefined : original.join() || undefined
}
