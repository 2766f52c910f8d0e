import { runInNewContext } from 'node:vm'
import { defineEnvironments, type Environment } from 'merchant-auth'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { destinationsOf } from '../../src/environment/destinations.ts'
import { problemsOf as problems } from '../support/problems.ts'
import { rig } from '../token/harness.ts'

const environment = (host: string, more: object = {}): Environment => ({
  authUrl: `https://auth.${host}`,
  audience: `https://api.${host}`,
  apiUrls: [`https://api.${host}/merchant`, `https://api.${host}/in-store`],
  ...more,
})
const production = environment('example')
const test = environment('test.example')

const problemsOf = (environments: unknown): string[] =>
  problems(() => defineEnvironments(environments as Record<string, Environment>))

describe('defineEnvironments', () => {
  it('returns the environments, deeply frozen, with their keys as names', () => {
    const environments = defineEnvironments({ production, test: { ...test, name: 'sandbox' } })
    expect(environments.production).toEqual({ ...production, name: 'production' })
    expect(environments.test.name).toBe('sandbox')
    for (const part of [environments, environments.production, environments.test.apiUrls])
      expect(Object.isFrozen(part)).toBe(true)
  })

  it('returns objects that all providers share', () => {
    const environments = defineEnvironments({ test })
    const used = (environment: Environment) => rig([], { environment }).provider.environment
    expect(used(environments.test)).toBe(environments.test)
    expect(used(test)).not.toBe(test) // which may still be changed
  })

  it('names every problem of every environment', () => {
    const bad = { authUrl: 5, audience: '', apiUrls: [], name: '', allowInsecureRequests: 'yes' }
    expect(
      problemsOf({ production: bad, test: null, third: { ...test, apiUrls: ['https://ok.example', 'x'] } }),
    ).toEqual([
      'production.name',
      'production.allowInsecureRequests',
      'production.authUrl',
      'production.audience',
      'production.apiUrls',
      'test',
      'third.apiUrls[1]',
    ])
  })

  it.each([undefined, null, 5, {}])('rejects %j', (environments) => {
    expect(problemsOf(environments)).toEqual(['environments'])
  })

  it.each([
    ['the same token endpoint', { authUrl: 'https://auth.example/oauth/token' }, ['test.authUrl']],
    ['the same audience', { audience: 'https://api.example' }, ['test.audience']],
    ['the same API', { apiUrls: ['https://x.example', 'https://api.example/merchant'] }, ['test.apiUrls[1]']],
    ['an API below the other’s', { apiUrls: ['https://api.example/merchant/v2'] }, ['test.apiUrls[0]']],
    ['an API above the other’s', { apiUrls: ['https://api.example'] }, ['test.apiUrls[0]']],
    [
      'the same API written differently',
      { apiUrls: ['HTTPS://API.example:443/x/../merchant/'] },
      ['test.apiUrls[0]'],
    ],
  ])('rejects two environments with %s', (_, more, problems) => {
    expect(problemsOf({ production, test: { ...test, ...more } })).toEqual(problems)
  })

  it('accepts two environments without an audience', () => {
    const without = (host: string) => environment(host, { tokenPath: '/token', audience: undefined })
    const environments = defineEnvironments({
      production: without('example'),
      test: without('test.example'),
    })
    expect(Object.keys(environments.test)).toEqual(['name', 'authUrl', 'tokenPath', 'apiUrls'])
  })

  it('accepts paths that share only a prefix', () => {
    const other = { ...test, apiUrls: ['https://api.example/merchant-test'] }
    expect(problemsOf({ production, test: other })).toEqual([])
  })

  it.each(['https://auth.example/v1/oauth/token', 'https://auth.example/v1/oauth/token/'])(
    'accepts the whole URL of the token endpoint as authUrl: %s',
    (authUrl) => {
      const environments = defineEnvironments({ production: { ...production, authUrl } })
      expect(environments.production.authUrl).toBe('https://auth.example/v1')
    },
  )

  it.each(['https://auth.example?x=1', 'https://auth.example#', 'https://user@auth.example'])(
    'rejects %s as authUrl',
    (authUrl) => {
      expect(problemsOf({ production: { ...production, authUrl } })).toEqual(['production.authUrl'])
    },
  )

  it.each(['https://api.example/a%2Fb', 'https://api.example/a%5cb', 'https://api.example/?a'])(
    'rejects %s in apiUrls',
    (url) => {
      expect(problemsOf({ production: { ...production, apiUrls: [url] } })).toEqual(['production.apiUrls[0]'])
    },
  )

  it.each(['\n', '\t', ' ', '|', '\nhttps://other.example', '|https://other.example'])(
    'rejects a URL that is followed by %j, which parsers drop or keep in a path',
    (more) => {
      const [authUrl, apiUrl] = [`https://auth.example/v1${more}`, `https://api.example/v1${more}`]
      expect(problemsOf({ production: { ...production, authUrl, apiUrls: [apiUrl] } })).toEqual([
        'production.authUrl',
        'production.apiUrls[0]',
      ])
    },
  )
})

describe('an environment that is not a plain object', () => {
  class Fields {
    authUrl = test.authUrl
    audience = test.audience
    apiUrls = { merchant: 'https://api.test.example/merchant', inStore: 'https://api.test.example/in-store' }
  }
  class Getters {
    get name(): string {
      return 'test'
    }
    get authUrl(): string {
      return test.authUrl
    }
    get audience(): string {
      return String(test.audience)
    }
    get apiUrls(): Fields['apiUrls'] {
      return new Fields().apiUrls
    }
    get allowInsecureRequests(): boolean {
      return false
    }
  }
  const { merchant, inStore } = new Fields().apiUrls
  class Urls {
    inStore = inStore
    get merchant(): string {
      return merchant
    }
  }
  const withUrls = (apiUrls: object) => ({ ...new Fields(), apiUrls })

  it.each<[kind: string, given: object]>([
    ['an instance of a class', new Fields()],
    ['an instance of a class with getters', new Getters()],
    ['an instance of a subclass', new (class extends Getters {})()],
    ['an object that inherits', Object.create(new Fields()) as object],
    ['an object that inherits and has its own', Object.assign(Object.create(new Fields()), { name: 'test' })],
    ['one whose apiUrls have getters', withUrls(new Urls())],
    ['one whose apiUrls inherit', withUrls(Object.assign(Object.create({ merchant }), { inStore }))],
    ['one of another realm', runInNewContext(`(${JSON.stringify(new Fields())})`) as object],
    ['one with a list of another realm', withUrls(runInNewContext(JSON.stringify([merchant, inStore])))],
  ])('is used as it was checked: %s', (_, given) => {
    const { environment } = rig([], { environment: given as Environment }).provider
    const { defined } = defineEnvironments({ defined: given as Environment })
    for (const used of [environment, defined]) {
      expect(used).toMatchObject({ authUrl: test.authUrl, audience: test.audience })
      expect(Object.values<string>(used.apiUrls).sort()).toEqual([inStore, merchant])
      for (const part of [used, used.apiUrls]) expect(Object.isFrozen(part)).toBe(true)
    }
  })

  it('is rejected for what a getter gives, too', () => {
    class Wrong extends Getters {
      override get audience(): string {
        return ''
      }
    }
    class WrongUrls {
      get merchant(): string {
        return 'merchant'
      }
    }
    expect(problemsOf({ test: new Wrong() })).toEqual(['test.audience'])
    expect(problemsOf({ test: withUrls(new WrongUrls()) })).toEqual(['test.apiUrls.merchant'])
    expect(problemsOf({ test: withUrls(new (class {})()) })).toEqual(['test.apiUrls'])
  })
})

describe('apiUrls by name', () => {
  const apiUrls = {
    merchant: 'https://api.test.example/merchant',
    inStore: 'https://api.test.example/in-store',
  }
  const { merchant } = apiUrls

  it('keep their names, in the type too, and are frozen copies', () => {
    const { named } = defineEnvironments({ named: { ...test, apiUrls } })
    expectTypeOf(named.apiUrls).toEqualTypeOf<{ merchant: string; inStore: string }>()
    expect(named.apiUrls).toEqual(apiUrls)
    expect([named.apiUrls, apiUrls].map(Object.isFrozen)).toEqual([true, false])
  })

  it.each([
    [{ merchant, inStore: 'http://api.example' }, ['test.apiUrls.inStore']],
    [{ merchant: undefined, inStore: 5 }, ['test.apiUrls.merchant', 'test.apiUrls.inStore']],
    [{}, ['test.apiUrls']],
    ['https://api.example', ['test.apiUrls']],
    [{ merchant: 'https://api.example/merchant/v2' }, ['test.apiUrls.merchant']], // overlaps with production
  ])('are validated, each under its name: %j', (apiUrls, names) => {
    expect(problemsOf({ production, test: { ...test, apiUrls } })).toEqual(names)
  })

  it.each([
    ['/api/merchant', 'merchant'],
    ['/api/merchant?x=1', 'merchant'],
    ['/api/merchant#top', 'merchant'],
    ['/api/merchant/', 'merchant'],
    ['/api/merchant/orders', 'merchant'],
    ['/api/merchant/../orders', 'all'],
    ['/api/merchants', 'all'],
    ['/other', undefined],
  ])('match a URL to the innermost entry that contains it: %s', (path, label) => {
    const urls = { all: 'https://api.example/api', merchant: 'https://api.example/api/merchant' }
    const destinations = destinationsOf({ ...test, apiUrls: urls })
    expect(destinations(`https://api.example${path}`).api?.label).toBe(label)
  })

  it('are one API if they have one base URL, and events name both', async () => {
    const urls = { merchant: 'https://api.example', inStore: 'https://api.example/' }
    const { provider, events } = rig([], { environment: { ...test, apiUrls: urls } })
    const reject = async (url: string) => provider.renewToken(await provider.getToken(), { url })
    await reject('https://api.example/orders')
    await reject('https://api.example/stores')
    expect(events.flatMap((event) => ('api' in event ? [[event.type, event.api]] : []))).toEqual([
      ['token-rejected', 'merchant, inStore'],
      ['token-rejected', 'merchant, inStore'],
    ])
  })
})
