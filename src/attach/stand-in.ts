/** Stand-ins: objects that behave like others and show nothing of them when inspected or copied. */

/** By this key a stand-in yields the object behind it. */
const REAL = Symbol('real')

/** The target of the proxies, which is what inspection shows: it has no visible properties. */
class StandIn {
  readonly #real: object

  constructor(real: object) {
    this.#real = real
  }

  static realOf(standIn: StandIn): object {
    return standIn.#real
  }
}

const { realOf: targetOf } = StandIn

const handler: ProxyHandler<StandIn> = {
  get(standIn, key) {
    const real = targetOf(standIn)
    if (key === REAL) return real
    const value: unknown = Reflect.get(real, key)
    if (typeof value === 'function' && key !== 'constructor') return value.bind(real)
    return leadsOn(value) ? standInFor(value) : value
  },
  set: (standIn, key, value) => Reflect.set(targetOf(standIn), key, value),
  has: (standIn, key) => Reflect.has(targetOf(standIn), key),
  deleteProperty: (standIn, key) => Reflect.deleteProperty(targetOf(standIn), key),
  defineProperty: (standIn, key, descriptor) =>
    Reflect.defineProperty(targetOf(standIn), key, { ...descriptor, configurable: true }),
}

const known = new WeakMap<object, object>()

/** The stand-in for an object, the same one each time. It has the class of the object, and no own properties. */
export function standInFor<T>(given: T): T {
  if (typeof given !== 'object' || given === null || realOf(given) !== given) return given
  const standIn = known.get(given) ?? newStandIn(given)
  known.set(given, standIn)
  return standIn as T
}

function newStandIn(real: object): object {
  const standIn = new StandIn(real)
  const proto: unknown = Object.getPrototypeOf(real)
  // A plain object gets a new prototype, because axios copies the properties of plain objects.
  const isPlain = proto === null || proto === Object.prototype
  Object.setPrototypeOf(standIn, isPlain ? Object.create(Object.prototype) : (proto as object))
  return new Proxy(standIn, handler)
}

/** The object behind a stand-in; any other value is returned as it is. */
export function realOf<T>(given: T): T {
  return (given as { readonly [REAL]?: T } | null | undefined)?.[REAL] ?? given
}

/** Whether a value may lead to other calls: sockets, agents, requests and responses, and the tables in agents. */
function leadsOn(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Object.getPrototypeOf(value) === null || ('on' in value && typeof value.on === 'function')
}
