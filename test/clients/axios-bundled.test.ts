// A bundled program without a node_modules folder, in which axios cannot be required.
import { createRequire } from 'node:module'
import axios, { type AxiosStatic } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it, vi } from 'vitest'
import { rejectionOf, useGround } from '../support/ground.ts'
import { hang, rig } from '../token/harness.ts'

vi.mock('node:module', () => ({
  createRequire: () => (id: string) => {
    throw Object.assign(new Error(`Cannot find module '${id}'`), { code: 'MODULE_NOT_FOUND' })
  },
}))

const ground = useGround()

describe('attachAuth where axios cannot be required', () => {
  it('attaches and renews the token for every copy of axios, which gets errors of its own class', async () => {
    expect(() => createRequire(import.meta.url)('axios')).toThrow("Cannot find module 'axios'")
    const { createRequire: actual } = await vi.importActual<typeof import('node:module')>('node:module')
    const required: AxiosStatic = actual(import.meta.url)('axios')
    expect(required.AxiosError).not.toBe(axios.AxiosError)
    for (const copy of [axios, required]) {
      const api = copy.create({ baseURL: ground.env.merchantUrl, timeout: 5_000 })
      const detach = attachAuth(api, ground.provider())
      ground.env.fail('merchant', { kind: 'status', status: 401 })
      expect((await api.get('/1')).status).toBe(200)
      detach()
      const { provider } = rig([hang], { environment: ground.env.environment })
      attachAuth(api, provider)
      expect(await rejectionOf(api.get('/2', { timeout: 20 }))).toBeInstanceOf(copy.AxiosError)
      await provider.close()
    }
    expect(ground.sent().map(({ status }) => status)).toEqual([401, 200, 401, 200])
  })
})
