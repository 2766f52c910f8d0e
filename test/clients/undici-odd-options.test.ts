// Odd options of a call of undici's: what becomes of it is what becomes of it on a dispatcher without the token.
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { type Dispatcher, errors } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Scripted, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { agentWith, createAuthDispatch, NotingHandler } from './undici-calls.ts'

const FIRST = 'Bearer first.token'
const SECOND = 'Bearer second.token'

let server: Scripted
let rawHeaders: readonly string[]
beforeAll(async () => {
  server = await scripted(({ headers, path }, response) => {
    rawHeaders = response.req.rawHeaders
    const isRejected = path.startsWith('/renewed') && headers.authorization === FIRST
    response.writeHead(isRejected ? 401 : 200).end()
  })
})
afterAll(() => server[Symbol.asyncDispose]())

const at = (apiUrl: string) => ({ current: token('first.token'), apiUrls: [apiUrl] })

const OTHER_HEADER = 'with another header'
const AGAIN = 'that is made again after a 401'

/** The ways of a call to its token. */
const WAYS: Record<string, (api: string) => Dispatcher> = {
  'with a token': (api) => agentWith(createAuthDispatch(provided(at(api)))),
  'with a token that is never renewed': (api) =>
    agentWith(createAuthDispatch(provided(at(api)), { renewOnStatus: [] })),
  'that waits for a token': (api) => agentWith(createAuthDispatch(provided({ apiUrls: [api] }))),
  [OTHER_HEADER]: (api) =>
    agentWith(createAuthDispatch(provided(at(api)), { header: 'X-Token', scheme: 'Bearer' })),
  [AGAIN]: (api) => agentWith(createAuthDispatch(provided(at(`${api}/renewed`)))),
}

type Options = Record<string, unknown>

/** What becomes of a call: what is thrown, what its handler gets, and what the API gets besides the token. */
async function outcomeOf(dispatcher: Dispatcher, options: Options, noted = new NotingHandler()) {
  server.seen.length = 0
  let thrown: unknown
  try {
    dispatcher.dispatch(options as never, noted)
    await noted.ended
  } catch (error) {
    thrown = error
  }
  const sent = server.seen.at(-1)
  return {
    thrown,
    noted: noted.events.filter((event) => event !== 'start'),
    error: noted.error && {
      name: noted.error.name,
      code: noted.error.code,
      message: noted.error.message,
      isUndicis: noted.error instanceof errors.UndiciError,
    },
    sent: sent && { ...sent, headers: undefined, rawHeaders: withoutToken(rawHeaders) },
  }
}

function withoutToken(list: readonly string[]): readonly string[] {
  return list.filter((_, at, all) => {
    const value = all[at | 1]
    return value !== FIRST && value !== SECOND
  })
}

/** Makes the same call on a plain dispatcher and on one with the token. */
async function both(way: string, make: (origin: string) => Options, lacks: Partial<NotingHandler> = {}) {
  const path = way === AGAIN ? '/renewed/x' : '/x'
  const options = () => {
    const odd = Object.getOwnPropertyDescriptors(make(server.url)) // and not what they are: some cannot be read
    return Object.defineProperties({ origin: server.url, path, method: 'POST' } as Options, odd)
  }
  const noted = (): NotingHandler => Object.assign(new NotingHandler(), lacks)
  const plain = await outcomeOf(agentWith(), options(), noted())
  const composed = await outcomeOf((WAYS[way] as (typeof WAYS)[string])(server.url), options(), noted())
  return { plain, composed }
}

function* yields(...pairs: unknown[]) {
  yield* pairs
}

const thrower = {
  get it(): never {
    throw new Error('thrown by the caller’s own')
  },
}

/** Options by their name, and each odd value of it. */
const HEADERS: readonly [string, () => unknown][] = [
  ['a string', () => 'asd'],
  ['a function', () => () => ({})],
  ['null', () => null],
  ['undefined', () => undefined],
  ['an object without a prototype', () => Object.assign(Object.create(null), { a: 'b' })],
  ['an object with what it inherits', () => Object.assign(Object.create({ c: 'd' }), { a: 'b' })],
  ['a list of odd length', () => ['a', 'b', 'c']],
  ['an empty list', () => []],
  ['a list of one', () => ['authorization']],
  ['a list with a name in a list', () => [['accept'], 'b']],
  ['a list with the own header’s name in a list', () => [['authorization'], 'mine']],
  ['a list with the own header’s name as a String object', () => [new String('authorization'), 'mine']],
  ['a list with holes', () => new Array(4)],
  ['a list of a pair', () => [['a', 'b']]],
  [
    'a list of pairs',
    () => [
      ['a', 'b'],
      ['c', 'd'],
    ],
  ],
  [
    'a list of pairs, the own header among them',
    () => [
      ['Authorization', 'mine'],
      ['c', 'd'],
    ],
  ],
  ['a Map', () => new Map([['a', 'b']])],
  ['a Map from objects', () => new Map([[{}, 'a']])],
  ['a Set of words', () => new Set(['abc', 'd'])],
  ['a Set of words in pairs', () => new Set(['ab', 'cd'])],
  ['a pair, and then none', () => yields(['a', 'b'], 'cd')],
  ['a wrong pair, and then none', () => yields(['a b', 'b'], 'cd')],
  ['pairs that never end, after a wrong one', () => endless()],
  ['one pair that is used for all', () => reused()],
  ['a generator that throws', () => throws()],
  ['an iterator that is none', () => ({ [Symbol.iterator]: 5 })],
  ['an iterator that is undefined', () => ({ a: 'b', [Symbol.iterator]: undefined })],
  ['an inherited iterator that is undefined', () => Object.create({ [Symbol.iterator]: undefined })],
  ['an iterator that throws', () => ({ [Symbol.iterator]: () => thrower.it })],
  ['bytes', () => Buffer.from('ab')],
  ['Headers', () => new Headers({ a: 'b' })],
  ['an iterator', () => [['a', 'b']].values()],
  ['an object with lists', () => ({ a: 'b', c: ['d', 'e'] })],
  ['a header of that length', () => ({ 'accept-thing': '1' })],
  ['a header of that name that is undefined', () => ({ authorization: undefined })],
  ['a list with a header of that name that is undefined', () => ['authorization', undefined]],
  ['an own header beside one that is undefined', () => ({ authorization: undefined, Authorization: 'mine' })],
  ['an own header in capitals', () => ({ AUTHORIZATION: 'mine' })],
  ['an own header in a list', () => ['x', 'y', 'authorization', 'mine']],
  ['an own header in Headers', () => new Headers({ authorization: 'mine' })],
  ['an own header in a Map', () => new Map([['Authorization', 'mine']])],
  ['an own header in an iterator', () => [['Authorization', 'mine']].values()],
  ['a value of null', () => ({ a: null })],
  ['a value that is undefined', () => ({ a: undefined })],
  ['a value that is a list', () => ({ a: ['b', 1, null] })],
  [
    'a value that cannot be read',
    () => Object.defineProperty({}, 'a', { enumerable: true, get: () => thrower.it }),
  ],
  ['an own header that is null', () => ({ authorization: null })],
  ['an own header that is an object', () => ({ Authorization: {} })],
  ['two own headers', () => ['Authorization', 'one', 'authorization', 'two']],
]

const OTHERS: readonly [string, (origin: string) => Options][] = [
  ['no path', () => ({ path: undefined })],
  ['a path that is a number', () => ({ path: 5 })],
  ['a path that has no text', () => ({ path: Object.create(null) })],
  ['an empty path', () => ({ path: '' })],
  ['a path without a slash', () => ({ path: 'x' })],
  ['a path that is an URL', (origin) => ({ path: `${origin}/x` })],
  ['no method', () => ({ method: undefined })],
  ['a body that is an object', () => ({ body: { a: 'b' } })],
  ['a body that is URLSearchParams', () => ({ body: new URLSearchParams('a=b') })],
  ['a body of shared memory', () => ({ body: new SharedArrayBuffer(3) })],
  ['a body that looks at shared memory', () => ({ body: new Uint8Array(new SharedArrayBuffer(3)) })],
  ['a body of another realm', () => ({ body: runInNewContext('new ArrayBuffer(3)') })],
  ['a body that looks at another realm', () => ({ body: runInNewContext('new Uint8Array(3)') })],
  ['an empty body', () => ({ body: '' })],
  ['an empty ArrayBuffer', () => ({ body: new ArrayBuffer(0) })],
  ['a detached body', () => ({ body: detachedView().buffer })],
  ['a view of a detached body', () => ({ body: detachedView() })],
  ['a body of a class of the caller’s own', () => ({ body: new Packet('a') })],
  ['Node’s own FormData', () => ({ body: new FormData() })],
  ['a query that is null', () => ({ query: null })],
  ['a query that is a list', () => ({ query: ['a', 'b'] })],
  ['a query that is URLSearchParams', () => ({ query: new URLSearchParams('a=b') })],
  ['a query that inherits', () => ({ query: Object.create({ a: 'b' }) })],
  ['a query beside one in the path', () => ({ path: '/x?a=b', query: { c: 'd' } })],
  ['a query that cannot be read', () => ({ query: { a: thrower } })],
  ['no origin', () => ({ origin: undefined })],
  ['an empty origin', () => ({ origin: '' })],
  ['an origin that has no text', () => ({ origin: Object.create(null) })],
  ['an origin that is a list', (origin) => ({ origin: [origin] })],
  ['an origin that is a String object', (origin) => ({ origin: new String(origin) })],
  ['an origin that is an URL', (origin) => ({ origin: new URL(origin) })],
  ['an origin with a slash', (origin) => ({ origin: `${origin}/` })],
  ['an origin with a path', (origin) => ({ origin: `${origin}/a` })],
  ['an origin that is an URL with a path', (origin) => ({ origin: new URL(`${origin}/a`) })],
  ['an origin that is like an URL', (origin) => ({ origin: { ...new URL(origin), toString: () => origin } })],
  [
    'an origin that is a function',
    (origin) => ({ origin: Object.assign(() => {}, { toString: () => origin }) }),
  ],
  ['an origin that is not a URL', () => ({ origin: 'nowhere' })],
  ['an origin of another protocol', () => ({ origin: 'ftp://127.0.0.1' })],
  [
    'a path that cannot be read',
    () => ({
      get path() {
        return thrower.it
      },
    }),
  ],
]

class Packet extends Uint8Array {
  constructor(kind: string) {
    super(4)
    this[0] = String(kind).charCodeAt(0)
  }
}

function detachedView(): Uint8Array {
  const view = new Uint8Array(3)
  structuredClone(view, { transfer: [view.buffer] })
  return view
}

function* endless() {
  yield 'no pair'
  for (;;) yield 'no pair'
}

function* reused() {
  const pair = ['', '']
  for (const name of ['a', 'b']) {
    pair[0] = name
    pair[1] = `value of ${name}`
    yield pair
  }
}

function* throws() {
  yield ['a', 'b']
  throw new Error('thrown by the caller’s own')
}

describe.each(Object.keys(WAYS))('as without the token: a call %s', (way) => {
  it.each(HEADERS)('with headers that are %s', async (name, headers) => {
    const { plain, composed } = await both(way, () => ({ headers: headers() }))
    expect(composed).toEqual(plain)
    const isOwn = name.includes('own header') && way !== OTHER_HEADER
    if (composed.sent) expect(rawHeaders.some((part) => [FIRST, SECOND].includes(part))).toBe(!isOwn)
  })

  it.each(OTHERS)('with %s', async (_, options) => {
    const { plain, composed } = await both(way, options)
    expect(composed).toEqual(plain)
  })

  it.each([
    ['onRequestStart', undefined],
    ['onRequestStart', 5],
    ['onResponseError', undefined],
    ['onResponseError', 5],
  ])('with a handler whose %s is %s', async (name, value) => {
    const { plain, composed } = await both(way, () => ({}), { [name]: value })
    expect(composed).toEqual(plain)
    expect(plain.sent).toBeUndefined()
  })

  it('with whatever else', async () => {
    const odd = fc.anything({
      withBoxedValues: true,
      withDate: true,
      withMap: true,
      withNullPrototype: true,
      withSet: true,
      withSparseArray: true,
      withTypedArray: true,
    })
    const name = fc.oneof(fc.constantFrom('a', 'b', 'Authorization', 'host', 'content-length'), odd)
    const value = fc.oneof(fc.constantFrom('1', '2'), fc.array(fc.constantFrom('3', null)), odd)
    const headers = fc.oneof(
      fc.dictionary(fc.constantFrom('a', 'b', 'authorization', 'c d'), value),
      fc.array(fc.tuple(name, value)).map((pairs) => pairs.flat()),
      fc.array(fc.oneof(fc.tuple(name, value), odd)).map((pairs) => new Set(pairs)),
      odd,
    )
    // What breaks off while it is sent may have reached the server or not.
    const body = odd.filter((some) => !(Object(some) === some && Symbol.iterator in (some as object)))
    const options = fc.record(
      { headers, path: odd, method: odd, body, query: odd, origin: odd },
      { requiredKeys: [] },
    )
    await fc.assert(
      fc.asyncProperty(options, async (given) => {
        const { plain, composed } = await both(way, () => (way === AGAIN ? { ...given, body: null } : given))
        expect(composed).toEqual(plain)
      }),
      { numRuns: 300 },
    )
  })
})
