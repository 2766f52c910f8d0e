// Suggestions for mistyped option names: similarName, and the errors of the functions that take options.
import {
  type AttachOptions,
  createAuthFetch,
  createTokenProvider,
  type TokenProviderOptions,
} from 'merchant-auth'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { createStaticTokenProvider, type SandboxOptions, startSandbox } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { similarName } from '../src/names.ts'
import { problemsIn } from './support/problems.ts'

describe('similarName', () => {
  const NAMES = ['at', 'port', 'json', 'check', 'scheme', 'timeoutMs', 'lifetime-seconds', 'bodyFormat']
  it.each([
    ['prot', 'port'],
    ['Check', 'check'],
    ['schema', 'scheme'],
    ['timeout', 'timeoutMs'],
    ['lifetime_secnods', 'lifetime-seconds'],
    ['a', undefined],
    ['chcek-it', undefined],
    ['lifetime', undefined],
  ])('maps $0 to $1', (typed, intended) => {
    expect(similarName(typed, NAMES)).toBe(intended)
  })

  it('returns the closest name, and none if no name is close enough', () => {
    expect(similarName('header-nam', ['header-game', 'header-name'])).toBe('header-name')
    expect(similarName('part', ['peers', 'sorts'])).toBeUndefined()
  })
})

describe('the error for an unknown option', () => {
  const environment = {
    authUrl: 'https://auth.example',
    audience: 'https://api.example',
    apiUrls: ['https://api.example'],
  }
  const provider = (more: object) =>
    createTokenProvider({
      environment,
      clientId: 'client-1',
      clientSecret: 'a-test-secret',
      ...more,
    } as TokenProviderOptions)
  const redis = { eval: () => {}, sendCommand: () => {}, isOpen: true, on: () => {}, listenerCount: () => 1 }

  it.each<[string, () => unknown, option: string, intended: string]>([
    ['createTokenProvider', () => provider({ timeout: 5 }), 'timeout', 'timeoutMs'],
    [
      'createAuthFetch',
      () => createAuthFetch(createStaticTokenProvider(), { heeder: 'X' } as AttachOptions),
      'heeder',
      'header',
    ],
    [
      'createRedisTokenStore',
      () => createRedisTokenStore(redis as never, { keyprefix: 'x' } as object),
      'keyprefix',
      'keyPrefix',
    ],
    [
      'createStaticTokenProvider',
      () => createStaticTokenProvider({ values: 'x' } as object),
      'values',
      'value',
    ],
  ])('of %s suggests the intended name', (_, make, option, intended) => {
    expect(problemsIn(make)).toEqual([{ option, reason: `is not an option; did you mean ${intended}?` }])
  })

  it('of the sandbox, its settings and its faults suggests the intended name', async () => {
    const problems = { ports: { tset: 4010 }, onrequest: () => {} }
    await expect(startSandbox(problems as SandboxOptions)).rejects.toMatchObject({
      problems: [
        { option: 'ports.tset', reason: 'is not an option; did you mean test?' },
        { option: 'onrequest', reason: 'is not an option; did you mean onRequest?' },
      ],
    })
    await using sandbox = await startSandbox()
    expect(problemsIn(() => sandbox.test.configure({ lifetimeSecond: 5 } as object))).toEqual([
      { option: 'lifetimeSecond', reason: 'is not an option; did you mean lifetimeSeconds?' },
    ])
    const fault = { kind: 'status', status: 503, retryafter: 5 }
    expect(problemsIn(() => sandbox.test.fail('token', fault as never))).toEqual([
      { option: 'fault.retryafter', reason: 'is not an option; did you mean retryAfter?' },
    ])
  })

  it('of createTokenProvider says where options of the environment belong', () => {
    expect(problemsIn(() => provider({ authUrl: 'https://auth.example' }))).toEqual([
      { option: 'authUrl', reason: 'belongs in environment' },
    ])
  })
})
