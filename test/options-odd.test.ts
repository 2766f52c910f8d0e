// Options of invalid types, and objects that misbehave when they are read: every error is a ConfigurationError.

import * as fc from 'fast-check'
import {
  defineEnvironments,
  type Environment,
  optionsFromEnv,
  type TokenProviderOptions,
} from 'merchant-auth'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { afterEach, describe, expect, it } from 'vitest'
import { resolveAttach, resolveOptions } from '../src/options.ts'
import { FaultQueue } from '../src/testing/faults.ts'
import { changedSettings, DEFAULT_SETTINGS } from '../src/testing/settings.ts'
import { createTokenProvider } from '../src/token/provider.ts' // not the wrapper that the tests import
import { problemsOf } from './support/problems.ts'
import { provided } from './support/provided.ts'
import { ENVIRONMENT } from './token/harness.ts'

const GOOD = { environment: ENVIRONMENT, clientId: 'client-1', clientSecret: 'swordfish' }
const VARIABLES = {
  MERCHANT_AUTH_URL: 'https://auth.example',
  MERCHANT_AUTH_AUDIENCE: 'https://api.example',
  MERCHANT_AUTH_API_URLS: 'https://api.example/merchant',
  MERCHANT_AUTH_CLIENT_ID: 'client-1',
  MERCHANT_AUTH_CLIENT_SECRET: 'swordfish',
}
const redis = { isOpen: true, eval: async () => null, sendCommand: async () => null, on: () => {} }

/** Every function that takes options, with an object that it accepts. */
const FACTORIES: Record<string, { make: (given: unknown) => unknown; good: Record<string, unknown> }> = {
  createTokenProvider: {
    make: (given) => createTokenProvider(given as TokenProviderOptions),
    good: {
      ...GOOD,
      timeoutMs: 1_000,
      retries: 1,
      refreshAheadMs: 1,
      expiryMarginMs: 1,
      bodyFormat: 'form',
      encryptionKeys: ['a key of at least thirty-two bytes'],
      store: { get: async () => undefined, set: async () => {} },
    },
  },
  resolveAttach: {
    make: (options: unknown) => resolveAttach(provided(), options),
    good: { header: 'X-Token', scheme: '', renewOnStatus: [401, 403] },
  },
  defineEnvironments: {
    make: (given) => defineEnvironments(given as Record<string, Environment>),
    good: { test: ENVIRONMENT },
  },
  optionsFromEnv: { make: (given) => optionsFromEnv(given as Record<string, string>), good: VARIABLES },
  createStaticTokenProvider: {
    make: (given) => createStaticTokenProvider(given as object),
    good: { environment: ENVIRONMENT, value: 'abc', scope: 'merchant' },
  },
  createRedisTokenStore: {
    make: (given) => createRedisTokenStore(redis, given as object),
    good: { keyPrefix: 'x:' },
  },
  'configure (sandbox)': {
    make: (given) => changedSettings(DEFAULT_SETTINGS, given),
    good: { lifetimeSeconds: 5, rejectAllTokens: ['merchant'], apiLatencyMs: 5, header: 'X-Token' },
  },
  'fail (sandbox)': {
    make: (given) => new FaultQueue().add(given),
    good: {
      target: 'token',
      fault: { kind: 'status', status: 503, headers: { 'X-Why': 'quota' }, body: { error: 'x' } },
      times: 2,
    },
  },
}

const hostile = fc.constantFrom<() => unknown>(
  () => throwingProxy(() => ({})),
  () => throwingProxy(() => []),
  () => throwingProxy(() => () => {}),
  () => revoked({}),
  () => revoked([]),
  () => throwingGetters(),
  () => new Array(2),
  () => Symbol('odd'),
  () => 5n,
  () => Object.create(null),
  () => ({
    toString: () => {
      throw new Error('odd')
    },
  }),
)

/** A proxy whose traps all throw. */
function throwingProxy(target: () => object): unknown {
  const fail = () => {
    throw new TypeError('odd')
  }
  return new Proxy(
    target(),
    Object.fromEntries(Object.getOwnPropertyNames(Reflect).map((trap) => [trap, fail])),
  )
}

function revoked(target: object): unknown {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

function throwingGetters(): object {
  const names = Object.values(FACTORIES).flatMap(({ good }) => Object.keys(good))
  const get = () => {
    throw new TypeError('odd')
  }
  return Object.defineProperties(
    {},
    Object.fromEntries(names.map((name) => [name, { get, enumerable: true }])),
  )
}

/** Factories of values, because fast-check itself inspects values. */
const anything: fc.Arbitrary<() => unknown> = fc.oneof(
  fc
    .anything({ withNullPrototype: true, withSparseArray: true, withBigInt: true, withMap: true })
    .map((value) => () => value),
  hostile,
)

/** Copies of `base` in which one property, possibly a nested one, has an arbitrary value. */
function withArbitraryPart(base: object): fc.Arbitrary<() => object> {
  return fc.constantFrom(...Object.keys(base)).chain((name) => {
    const part: unknown = Reflect.get(base, name)
    const replace = (make: () => unknown) => () =>
      Object.assign(Array.isArray(base) ? [...base] : { ...base }, { [name]: make() })
    const replaced = anything.map(replace)
    return typeof part === 'object' && part !== null
      ? fc.oneof(replaced, withArbitraryPart(part).map(replace))
      : replaced
  })
}

describe.each(Object.entries(FACTORIES))('%s', (_, { make, good }) => {
  it('accepts the valid options that the invalid ones are derived from', () => {
    expect(problemsOf(() => make(good))).toEqual([])
  })

  it('throws only a ConfigurationError for any value instead of the options', () => {
    fc.assert(fc.property(anything, (given) => void problemsOf(() => make(given()))))
  })

  it('throws only a ConfigurationError for any value of an option or nested in one', () => {
    fc.assert(
      fc.property(withArbitraryPart(good), (given) => void problemsOf(() => make(given()))),
      { numRuns: 500 },
    )
  })
})

describe('the name of an invalid option', () => {
  const HOLE: string[] = []
  HOLE[1] = 'https://x.example'
  const env = (more: object) => problemsOf(() => optionsFromEnv({ ...VARIABLES, ...more }))
  const provider = (more: object) =>
    problemsOf(() => resolveOptions({ ...GOOD, ...more } as TokenProviderOptions))
  const get = () => {
    throw new Error('odd')
  }
  const throwing = (name: string) => Object.defineProperty({}, name, { get, enumerable: true })

  const attach = (options: unknown) => problemsOf(() => resolveAttach(provided(), options))
  const environments = (given: object) =>
    problemsOf(() => defineEnvironments(given as Record<string, Environment>))
  const apis = (apiUrls: unknown) => ({ ...ENVIRONMENT, apiUrls })
  const noVariables = () => problemsOf(() => optionsFromEnv(null as unknown as undefined))

  it.each<[string, () => string[], string]>([
    ['a hole in apiUrls', () => provider({ environment: apis(HOLE) }), 'environment.apiUrls[0]'],
    ['a hole in the apiUrls of a set', () => environments({ test: apis(HOLE) }), 'test.apiUrls[0]'],
    ['a hole in encryptionKeys', () => provider({ encryptionKeys: new Array(1) }), 'encryptionKeys[0]'],
    ['a hole in renewOnStatus', () => attach({ renewOnStatus: new Array(1) }), 'renewOnStatus[0]'],
    ['null as attach options', () => attach(null), 'options'],
    ['null as variables', noVariables, 'env'],
    ...['URL', 'CLIENT_SECRET', 'TIMEOUT_MS'].map((name): [string, () => string[], string] => [
      `a number as the variable ${name}`,
      () => env({ [`MERCHANT_AUTH_${name}`]: 5 }),
      `MERCHANT_AUTH_${name}`,
    ]),
    ['an environment whose getter throws', () => environments(throwing('test')), 'test'],
    ['an attach option whose getter throws', () => attach(throwing('header')), 'header'],
    ['a revoked proxy as encryptionKeys', () => provider({ encryptionKeys: revoked([]) }), 'encryptionKeys'],
    ['a revoked proxy as apiUrls', () => provider({ environment: apis(revoked([])) }), 'environment.apiUrls'],
  ])('is reported for %s', (_, problems, name) => {
    expect(problems()).toEqual([name])
  })
})

describe('an extension of Object.prototype', () => {
  const extend = (name: string, value: unknown) =>
    Object.defineProperty(Object.prototype, name, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    })
  afterEach(() => {
    for (const name of ['legacyExtend', 'store', 'header', 'name', 'environment'])
      Reflect.deleteProperty(Object.prototype, name)
  })

  it.each(Object.entries(FACTORIES))('is not used as an option of %s', (_, { make, good }) => {
    extend('legacyExtend', () => {})
    extend('store', 'not a store')
    expect(problemsOf(() => make(good))).toEqual([])
  })

  it('changes no default', () => {
    extend('store', { get: () => {}, set: () => {} })
    extend('header', 'X-Token')
    extend('name', 'elsewhere')
    expect(resolveOptions(GOOD).store).toBeUndefined()
    expect(resolveAttach(provided(), {}).header).toBe('Authorization')
    const { name: _, ...unnamed } = ENVIRONMENT
    expect(Object.keys(resolveOptions({ ...GOOD, environment: unnamed }).environment)).not.toContain('name')
  })

  it('is distinguished from the getters of a class, which are read as options', () => {
    class Settings {
      clientId = 'client-1'
      get clientSecret() {
        return 'swordfish'
      }
      get environment() {
        return ENVIRONMENT
      }
    }
    expect(resolveOptions(new Settings())).toMatchObject({
      clientId: 'client-1',
      credential: { value: 'swordfish' },
    })
    class Attach {
      get header() {
        return 'X-Token'
      }
    }
    expect(resolveAttach(provided(), new Attach()).header).toBe('X-Token')
  })
})

describe('an option that changes each time it is read', () => {
  it('is read once', () => {
    let reads = 0
    const options = {
      ...GOOD,
      get environment() {
        reads += 1
        return reads === 1 ? ENVIRONMENT : undefined
      },
    }
    expect(resolveOptions(options).environment).toEqual(ENVIRONMENT)
  })
})
