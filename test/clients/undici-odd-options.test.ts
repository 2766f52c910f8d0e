// Odd options of an undici call: the outcome is the same as on a dispatcher without the token.
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { type Dispatcher, errors } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Scripted, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { agentWith, createAuthDispatch, RecordingHandler } from './undici-calls.ts'

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

const given = (apiUrl: string) => ({ current: token('first.token'), apiUrls: [apiUrl] })

const OTHER_HEADER = 'with another header'
const REPEATED = 'that is repeated after a 401'

/** The ways in which a call gets its token. */
const WAYS: Record<string, (api: string) => Dispatcher> = {
  'with a token': (api) => agentWith(createAuthDispatch(provided(given(api)))),
  'with a token that is never renewed': (api) =>
    agentWith(createAuthDispatch(provided(given(api)), { renewOnStatus: [] })),
  'that waits for a token': (api) => agentWith(createAuthDispatch(provided({ apiUrls: [api] }))),
  [OTHER_HEADER]: (api) =>
    agentWith(createAuthDispatch(provided(given(api)), { header: 'X-Token', scheme: 'Bearer' })),
  [REPEATED]: (api) => agentWith(createAuthDispatch(provided(given(`${api}/renewed`)))),
}

type Options = Record<string, unknown>

/** The outcome of a call: what it throws, what its handler gets, and what the API gets besides the token. */
async function outcomeOf(dispatcher: Dispatcher, options: Options, recorded = new RecordingHandler()) {
  server.seen.length = 0
  let thrown: unknown
  try {
    dispatcher.dispatch(options as never, recorded)
    await recorded.ended
  } catch (error) {
    thrown = error
  }
  const sent = server.seen.at(-1)
  return {
    thrown,
    events: recorded.events.filter((event) => event !== 'start'),
    error: recorded.error && {
      name: recorded.error.name,
      code: recorded.error.code,
      message: recorded.error.message,
      isUndicis: recorded.error instanceof errors.UndiciError,
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
async function outcomesOf(
  way: string,
  make: (origin: string) => Options,
  lacks: Partial<RecordingHandler> = {},
) {
  const path = way === REPEATED ? '/renewed/x' : '/x'
  const options = () => {
    const odd = Object.getOwnPropertyDescriptors(make(server.url)) // without reading the values: some getters throw
    return Object.defineProperties({ origin: server.url, path, method: 'POST' } as Options, odd)
  }
  const recorded = (): RecordingHandler => Object.assign(new RecordingHandler(), lacks)
  const plain = await outcomeOf(agentWith(), options(), recorded())
  const composed = await outcomeOf((WAYS[way] as (typeof WAYS)[string])(server.url), options(), recorded())
  return { plain, composed }
}

function* yields(...pairs: unknown[]) {
  yield* pairs
}

const throwing = {
  get it(): never {
    throw new Error('thrown by the caller’s getter')
  },
}

const HEADERS: readonly [string, () => unknown][] = [
  ['a string', () => 'asd'],
  ['a function', () => () => ({})],
  ['null', () => null],
  ['undefined', () => undefined],
  ['an object without a prototype', () => Object.assign(Object.create(null), { a: 'b' })],
  ['an object with inherited members', () => Object.assign(Object.create({ c: 'd' }), { a: 'b' })],
  ['a list of odd length', () => ['a', 'b', 'c']],
  ['an empty list', () => []],
  ['a list with one element', () => ['authorization']],
  ['a list with a nested list as a name', () => [['accept'], 'b']],
  ['a list with the own header’s name in a nested list', () => [['authorization'], 'mine']],
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
  ['a Map with an object as a key', () => new Map([[{}, 'a']])],
  ['a Set of strings of other lengths than 2', () => new Set(['abc', 'd'])],
  ['a Set of strings of length 2', () => new Set(['ab', 'cd'])],
  ['a pair, then a string', () => yields(['a', 'b'], 'cd')],
  ['a pair, then a list of three', () => yields(['a', 'b'], ['c', 'd', 'e'])],
  ['two lists of three', () => yields(['a', 'b', 'c'], ['d', 'e', 'f'])],
  ['an invalid pair, then a string', () => yields(['a b', 'b'], 'cd')],
  ['an endless generator of invalid pairs', () => endless()],
  ['a generator that reuses one pair', () => reused()],
  ['a generator that throws', () => throws()],
  ['an invalid Symbol.iterator', () => ({ [Symbol.iterator]: 5 })],
  ['an undefined Symbol.iterator', () => ({ a: 'b', [Symbol.iterator]: undefined })],
  ['an inherited, undefined Symbol.iterator', () => Object.create({ [Symbol.iterator]: undefined })],
  ['a Symbol.iterator that throws', () => ({ [Symbol.iterator]: () => throwing.it })],
  ['bytes', () => Buffer.from('ab')],
  ['Headers', () => new Headers({ a: 'b' })],
  ['an iterator', () => [['a', 'b']].values()],
  ['an object with lists', () => ({ a: 'b', c: ['d', 'e'] })],
  ['a header as long as Authorization', () => ({ 'accept-thing': '1' })],
  ['an Authorization that is undefined', () => ({ authorization: undefined })],
  ['a list with an Authorization that is undefined', () => ['authorization', undefined]],
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
    'a value whose getter throws',
    () => Object.defineProperty({}, 'a', { enumerable: true, get: () => throwing.it }),
  ],
  ['an own header that is null', () => ({ authorization: null })],
  ['an own header that is an object', () => ({ Authorization: {} })],
  ['two own headers', () => ['Authorization', 'one', 'authorization', 'two']],
]

const OTHERS: readonly [string, (origin: string) => Options][] = [
  ['no path', () => ({ path: undefined })],
  ['a path that is a number', () => ({ path: 5 })],
  ['a path that cannot be converted to a string', () => ({ path: Object.create(null) })],
  ['an empty path', () => ({ path: '' })],
  ['a path without a slash', () => ({ path: 'x' })],
  ['a path that is a URL', (origin) => ({ path: `${origin}/x` })],
  ['no method', () => ({ method: undefined })],
  ['a body that is an object', () => ({ body: { a: 'b' } })],
  ['a body that is URLSearchParams', () => ({ body: new URLSearchParams('a=b') })],
  ['a SharedArrayBuffer as the body', () => ({ body: new SharedArrayBuffer(3) })],
  ['a view of a SharedArrayBuffer as the body', () => ({ body: new Uint8Array(new SharedArrayBuffer(3)) })],
  ['an ArrayBuffer of another realm as the body', () => ({ body: runInNewContext('new ArrayBuffer(3)') })],
  ['a Uint8Array of another realm as the body', () => ({ body: runInNewContext('new Uint8Array(3)') })],
  ['an empty body', () => ({ body: '' })],
  ['an empty ArrayBuffer', () => ({ body: new ArrayBuffer(0) })],
  ['a detached ArrayBuffer as the body', () => ({ body: detachedView().buffer })],
  ['a view of a detached ArrayBuffer as the body', () => ({ body: detachedView() })],
  ['a subclass of Uint8Array as the body', () => ({ body: new Packet('a') })],
  ['Node’s FormData as the body', () => ({ body: new FormData() })],
  ['a query that is null', () => ({ query: null })],
  ['a query that is a list', () => ({ query: ['a', 'b'] })],
  ['a query that is URLSearchParams', () => ({ query: new URLSearchParams('a=b') })],
  ['a query with inherited members', () => ({ query: Object.create({ a: 'b' }) })],
  ['a query option and a query in the path', () => ({ path: '/x?a=b', query: { c: 'd' } })],
  ['a query whose getter throws', () => ({ query: { a: throwing } })],
  ['no origin', () => ({ origin: undefined })],
  ['an empty origin', () => ({ origin: '' })],
  ['an origin that cannot be converted to a string', () => ({ origin: Object.create(null) })],
  ['an origin that is a list', (origin) => ({ origin: [origin] })],
  ['an origin that is a String object', (origin) => ({ origin: new String(origin) })],
  ['an origin that is a URL', (origin) => ({ origin: new URL(origin) })],
  ['an origin with a slash', (origin) => ({ origin: `${origin}/` })],
  ['an origin with a path', (origin) => ({ origin: `${origin}/a` })],
  ['an origin that is a URL with a path', (origin) => ({ origin: new URL(`${origin}/a`) })],
  [
    'an origin that looks like a URL',
    (origin) => ({ origin: { ...new URL(origin), toString: () => origin } }),
  ],
  [
    'an origin that is a function',
    (origin) => ({ origin: Object.assign(() => {}, { toString: () => origin }) }),
  ],
  ['an origin that is not a URL', () => ({ origin: 'nowhere' })],
  ['an origin of another protocol', () => ({ origin: 'ftp://127.0.0.1' })],
  [
    'a path whose getter throws',
    () => ({
      get path() {
        return throwing.it
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
  throw new Error('thrown by the caller’s generator')
}

describe.each(Object.keys(WAYS))('an undici call %s', (way) => {
  it.each(HEADERS)(
    'has the same outcome as without the token if its headers are %s',
    async (name, headers) => {
      const { plain, composed } = await outcomesOf(way, () => ({ headers: headers() }))
      expect(composed).toEqual(plain)
      const isOwn = name.includes('own header') && way !== OTHER_HEADER
      if (composed.sent) expect(rawHeaders.some((part) => [FIRST, SECOND].includes(part))).toBe(!isOwn)
    },
  )

  it.each(OTHERS)('has the same outcome as without the token: %s', async (_, options) => {
    const { plain, composed } = await outcomesOf(way, options)
    expect(composed).toEqual(plain)
  })

  it.each([
    ['onRequestStart', undefined],
    ['onRequestStart', 5],
    ['onResponseError', undefined],
    ['onResponseError', 5],
  ])('has the same outcome as without the token if its handler’s %s is %s', async (name, value) => {
    const { plain, composed } = await outcomesOf(way, () => ({}), { [name]: value })
    expect(composed).toEqual(plain)
    expect(plain.sent).toBeUndefined()
  })

  it.each([
    ['null', null],
    ['a text', 'handler'],
    [
      'a function with the callbacks',
      Object.assign(() => {}, { onRequestStart: () => {}, onResponseError: () => {} }),
    ],
  ])('has the same outcome as without the token if its handler is %s', (_, handler) => {
    const thrownBy = (dispatcher: Dispatcher): unknown => {
      try {
        return dispatcher.dispatch({ origin: server.url, path: '/x', method: 'GET' }, handler as never)
      } catch (error) {
        return error
      }
    }
    const plain = thrownBy(agentWith())
    expect(plain).toBeInstanceOf(errors.InvalidArgumentError)
    expect(thrownBy((WAYS[way] as (typeof WAYS)[string])(server.url))).toEqual(plain)
  })

  it('returns false, as undici does, if its options cannot be read', () => {
    const options = {
      origin: server.url,
      get path() {
        return throwing.it
      },
    }
    const dispatcher = (WAYS[way] as (typeof WAYS)[string])(server.url)
    expect(dispatcher.dispatch(options as never, new RecordingHandler())).toBe(false)
  })

  it('has the same outcome as without the token with generated options (fast-check)', async () => {
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
    // A body that fails while it is sent may or may not have reached the server.
    const body = odd.filter((some) => !(Object(some) === some && Symbol.iterator in (some as object)))
    const options = fc.record(
      { headers, path: odd, method: odd, body, query: odd, origin: odd },
      { requiredKeys: [] },
    )
    await fc.assert(
      fc.asyncProperty(options, async (given) => {
        const { plain, composed } = await outcomesOf(way, () =>
          way === REPEATED ? { ...given, body: null } : given,
        )
        expect(composed).toEqual(plain)
      }),
      { numRuns: 300 },
    )
  })
})
