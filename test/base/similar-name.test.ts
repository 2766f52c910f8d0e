// Suggestions for mistyped option names: similarName, and the errors of functions that take options.
import { createTokenProvider, type TokenProviderOptions } from 'merchant-auth'
import { type SandboxOptions, startSandbox } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { similarName } from '../../src/base/similar-name.ts'
import { problemsIn } from '../support/problems.ts'
import { ENVIRONMENT, SECRET } from '../token/harness.ts'

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

  it('returns the closest name', () => {
    expect(similarName('header-nam', ['header-game', 'header-name'])).toBe('header-name')
  })
})

describe('the error for an unknown option', () => {
  it('suggests the intended name', () => {
    const options = { environment: ENVIRONMENT, clientId: 'client-1', clientSecret: SECRET, timeout: 5 }
    expect(problemsIn(() => createTokenProvider(options as TokenProviderOptions))).toEqual([
      { option: 'timeout', kind: 'unknown', reason: 'is not an option; did you mean timeoutMs?' },
    ])
  })

  it('has the path of a nested option', async () => {
    const options = { ports: { tset: 4010 } } as SandboxOptions
    await expect(startSandbox(options)).rejects.toMatchObject({
      problems: [{ option: 'ports.tset', kind: 'unknown', reason: 'is not an option; did you mean test?' }],
    })
  })
})
