/** Stand-ins: objects that do what the ones they stand for do, and show nothing of them when they are inspected or copied. */

const standIns = new WeakMap<object, object>()
const reals = new WeakMap<object, object>()

/** The stand-in of an object, the same one each time. Its class is that of the object, and it has no properties of its own. */
export function standInFor<T>(given: T): T {
  if (typeof given !== 'object' || given === null || reals.has(given)) return given
  const standIn = standIns.get(given) ?? newStandIn(given)
  return standIn as T
}

/** What a stand-in stands for; anything else is itself. */
export function realOf<T>(given: T): T {
  return (reals.get(given as object) ?? given) as T
}

// What is inspected is the target of a proxy, and that is empty.
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

/** That of its class. A plain object gets one of its own, because axios copies the properties of plain objects. */
function prototypeFor(real: object): object {
  const proto: unknown = Object.getPrototypeOf(real)
  return proto === null || proto === Object.prototype ? Object.create(Object.prototype) : (proto as object)
}

/** Whether it may lead to other calls: sockets, agents, requests and answers do, and the tables in which agents keep them. */
function leadsOn(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Object.getPrototypeOf(value) === null || ('on' in value && typeof value.on === 'function')
}
