// What attachAuth refuses, and in which words (contract 5.3, 6).
import axios from 'axios'
import { ConfigurationError } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { rig } from '../token/harness.ts'

function refusal(instance: unknown, header?: string): ConfigurationError {
  try {
    attachAuth(instance as never, rig().provider, header === undefined ? {} : { header })
  } catch (error) {
    if (error instanceof ConfigurationError) return error
    throw error
  }
  throw new Error('It was not refused')
}

describe('attachAuth refuses', () => {
  it.each([
    undefined,
    null,
    'axios',
    {},
    { interceptors: null },
    { interceptors: {} },
    { interceptors: { request: null } },
    { interceptors: { request: {} } },
    { interceptors: { request: { use: true } } },
  ])('what is no axios instance: %j', (instance) => {
    const error = refusal(instance)
    expect(error.message).toBe('The token cannot be attached:\n  - instance: must be an axios instance')
    expect(error.problems).toEqual([{ option: 'instance', reason: 'must be an axios instance' }])
    expect(error.code).toBe('ERR_CONFIGURATION')
  })

  it('an instance that has a token', () => {
    const api = axios.create()
    attachAuth(api, rig().provider)
    expect(refusal(api).message).toBe(
      'The token cannot be attached:\n  - instance: already has a token attached; detach that one first',
    )
  })

  it.each([
    ['all methods', { 'x-tOKEN': 'one' }],
    ['one method', { post: { 'X-Token': 'one' } }],
    ['common', { common: { 'X-TOKEN': 'one' } }],
    ['common, with nothing in it', { common: { 'X-TOKEN': '' } }],
  ])('an instance with a default header of that name: %s', (_, headers) => {
    expect(refusal(axios.create({ headers } as never), 'X-Token').message).toBe(
      'The token cannot be attached:\n' +
        '  - instance: has a default header X-Token, which would replace the token; ' +
        'delete it from instance.defaults.headers',
    )
  })
})

describe('attachAuth takes', () => {
  it.each([
    ['none at all', undefined],
    ['nothing in them', { common: undefined, get: null, 'X-Token': undefined }],
    ['others', { common: { 'X-Tokens': '1' }, 'X-Other': 'X-Token', 'X-Number': 1, 'X-Flag': true }],
    ['one of that name for no method', { common: { 'X-Token': undefined } }],
  ])('an instance with these default headers: %s', (_, headers) => {
    const api = axios.create()
    api.defaults.headers = headers as never
    expect(() => attachAuth(api, rig().provider, { header: 'X-Token' })).not.toThrow()
  })
})
