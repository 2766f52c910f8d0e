// Where undici's calls may take the token (contract 5.1).
import type { Dispatcher } from 'undici'
import { describe, expect, it } from 'vitest'
import { apiAt, useGround } from './calls.ts'
import { at, createAuthDispatch, held, passedOn, Told } from './undici-calls.ts'

const ground = useGround()

describe('a call of undici’s', () => {
  it.each<[string, object]>([
    ['another path', { path: '/other' }],
    ['a path that begins alike', { path: '/merchants' }],
    ['another origin', { origin: 'http://evil.example' }],
    ['another port', { origin: `${at}:81` }],
    ['another scheme', { origin: 'https://api.example' }],
    ['dot segments', { path: '/merchant/../x' }],
    ['dot segments that lead in', { path: '/x/../merchant/y' }],
    ['a dot segment that changes nothing', { path: '/merchant/./y' }],
    ['encoded dot segments', { path: '/merchant/%2e%2e/x' }],
    ['a backslash', { path: '/merchant/a\\..\\b' }],
    ['an encoded slash', { path: '/merchant/..%2fx' }],
    ['a fragment, which undici would send', { path: '/merchant#/../x' }],
    ['a double slash', { path: '//merchant/x' }],
    ['an absolute form', { path: `${at}/merchant/x` }],
    ['user info as path', { path: '@evil.example/merchant/x' }],
    ['no path', { path: undefined }],
    ['no origin', { origin: undefined }],
    ['a CONNECT', { method: 'CONNECT', path: '/merchant/x' }],
    ['user info', { origin: 'http://a:b@api.example' }],
  ])('goes untouched, and is told of, with %s', (_, options) => {
    const given = { origin: at, path: '/merchant/x', method: 'GET', ...options }
    const events: unknown[] = []
    const tokens = ground.provider({
      environment: apiAt(ground.env, ground.env.merchantUrl),
      onEvent: (event) => events.push(event),
    })
    Object.defineProperty(tokens, 'environment', { value: held().environment })
    const passed: unknown[] = []
    const dispatch = createAuthDispatch(tokens)((...all: never[]) => {
      passed.push(...all)
      return true
    }) as unknown as (...all: unknown[]) => boolean
    const handler = new Told()
    expect(dispatch(given, handler)).toBe(true)
    expect(passed[0]).toBe(given)
    expect(passed[1]).toBe(handler)
    expect(events).toMatchObject([{ type: 'token-withheld' }])
  })

  it.each<[string, object]>([
    ['the API itself', { path: '/merchant' }],
    ['a query', { path: '/merchant?a=/../b' }],
    ['a query apart', { query: { a: '../b' } }],
    ['dots that are no segments', { path: '/merchant/.well-known/a..b/c.json' }],
    ['an escape', { path: '/merchant/%C3%A9' }],
    ['a URL as origin', { origin: new URL(at) }],
    ['a slash after the origin', { origin: `${at}/` }],
    ['another spelling of the origin', { origin: 'HTTP://API.example:80' }],
  ])('has the token with %s', (_, options) => {
    expect(passedOn(options).headers).toEqual({ Authorization: 'Bearer the.one.token' })
  })

  it('has no token where the dispatcher is connected to another place, or to one of several', () => {
    for (const [connected, has] of [
      [at, true],
      ['http://evil.example', false],
      [null, false],
    ] as const) {
      const intercept = createAuthDispatch(held()) as (dispatch: unknown, connected: unknown) => unknown
      const sent: Dispatcher.DispatchOptions[] = []
      const dispatch = intercept((options: never) => sent.push(options), connected) as Dispatcher['dispatch']
      dispatch({ origin: at, path: '/merchant/x', method: 'GET' }, new Told())
      expect(JSON.stringify(sent).includes('the.one.token')).toBe(has)
    }
  })
})
