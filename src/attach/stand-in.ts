/** Stand-ins: objects that behave like others and show nothing of them when inspected or copied. */

const standIns = new WeakMap<object, object>()
const reals = new WeakMap<object, object>()

/** The stand-in for an object, the same one each time. It has the class of the object and no own properties. */
export function standInFor<T>(given: T): T {
  if (typeof given !== 'object' || given === null || reals.has(given)) return given
  const standIn = standIns.get(given) ?? newStandIn(given)
  return standIn as T
}

/** The object behind a stand-in; any other value is returned as it is. */
export function realOf<T>(given: T): T {
  return (reals.get(given as object) ?? given) as T
}

// Inspection shows the target of a proxy, which is empty.
function newStandIn(real: object): object {
  const standIn = new Proxy(Object.create(prototypeFor(real)), {
    get: (_, key) => {
      const value = Reflect.get(real, key)
      if (typeof value === 'function' && key !== 'constructor') return value.bind(real)
      return leadsOn(value) ? standInFor(value) : value
    },
    defineProperty: (_, key, descriptor) =>
      Reflect.defineProperty(real, key, { ...descriptor, configurable: true }),
    set: (_, key, value) => Reflect.set(real, key, value),
    has: (_, key) => Reflect.has(real, key),
    deleteProperty: (_, key) => Reflect.deleteProperty(real, key),
  })
  standIns.set(real, standIn)
  reals.set(standIn, real)
  return standIn
}

/** The prototype of its class. A plain object gets a new one, because axios copies the properties of plain objects. */
function prototypeFor(real: object): object {
  const proto: unknown = Object.getPrototypeOf(real)
  return proto === null || proto === Object.prototype ? Object.create(Object.prototype) : (proto as object)
}

/** Whether a value may lead to other calls: sockets, agents, requests and responses, and the tables in agents. */
function leadsOn(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Object.getPrototypeOf(value) === null || ('on' in value && typeof value.on === 'function')
}
