// What axios' fetch adapter is told of redirects, and how they are noticed (contract 5.4).

import axios, { type CreateAxiosDefaults } from 'axios'
import type { AttachOptions } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it, vi } from 'vitest'
import { API, client, type Final, TOKENS } from './redirecting.ts'

describe('redirects of the fetch adapter', () => {
  const optionsOf = async (attach: AttachOptions, config: CreateAxiosDefaults = {}): Promise<unknown> => {
    let given: unknown
    const look = ({ fetchOptions }: Final) => {
      given = fetchOptions
    }
    await client('attachAuth', look, config, attach).get(`${API}/x`)
    return given
  }

  it.each<[AttachOptions, Record<string, string> | undefined, unknown]>([
    [{}, undefined, undefined],
    [{}, { cache: 'no-store' }, { cache: 'no-store' }],
    [{ header: 'X-Access' }, undefined, { redirect: 'manual' }],
    [
      { header: 'X-Access' },
      { cache: 'no-store', redirect: 'follow' },
      { cache: 'no-store', redirect: 'manual' },
    ],
    [{ header: 'X-Access' }, { redirect: 'error' }, { redirect: 'error' }],
  ])('%o with the options %o are asked for with %o', async (attach, fetchOptions, expected) => {
    expect(await optionsOf(attach, fetchOptions === undefined ? {} : { fetchOptions })).toEqual(expected)
  })

  it('are watched by one fetch for all calls: axios keeps an adapter for each that it meets', async () => {
    const seen: unknown[] = []
    const see = ({ env }: Final) => void seen.push(env?.fetch)
    const own: typeof fetch = async () => new Response()
    for (const config of [{}, {}, { env: { fetch: own } }, { env: { fetch: own } }])
      await client('attachAuth', see, config).get(`${API}/x`)
    const [first, second, third, fourth] = seen
    expect(first).toBeTypeOf('function')
    expect(second).toBe(first)
    expect(third).not.toBe(first)
    expect(fourth).toBe(third)
  })

  it('go by whatever globalThis.fetch is at the time of the call', async () => {
    const api = axios.create({ adapter: 'fetch' })
    attachAuth(api, TOKENS)
    const spy = vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response('mocked'))
    try {
      expect((await api.get(`${API}/x`)).data).toBe('mocked')
      expect(spy).toHaveBeenCalledOnce()
    } finally {
      spy.mockRestore()
    }
  })
})
