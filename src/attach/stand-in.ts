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
  const standIn = new Proxy(Object.create(Object.getPrototypeOf(real)), {
    get: (_, key) => {
      const value = Reflect.get(real, key)
      return typeof value === 'function' && key !== 'constructor' ? value.bind(real) : value
    },
    set: (_, key, value) => Reflect.set(real, key, value),
    has: (_, key) => Reflect.has(real, key),
    deleteProperty: (_, key) => Reflect.deleteProperty(real, key),
  })
  standIns.set(real, standIn)
  reals.set(standIn, real)
  return standIn
}
