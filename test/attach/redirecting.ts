/** What the tests of redirects share: an instance whose adapter shows the final config, and redirects as they come. */
import axios, { type CreateAxiosDefaults, type InternalAxiosRequestConfig } from 'axios'
import type { AttachOptions } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import type { AxiosBeforeRedirect, AxiosRedirectOptions } from '../../src/attach/axios-types.ts'
import { provided, token } from './provided.ts'

export const API = 'https://api.test.example/merchant'
export const OTHER_API = 'https://other.test.example/in-store'
export const IPV6_API = 'https://[::1]:8443/merchant'
export const TOKENS = provided({ current: token('the.one.token'), apiUrls: [API, OTHER_API, IPV6_API] })

export type Final = Omit<InternalAxiosRequestConfig, 'beforeRedirect' | 'transport'> & {
  readonly beforeRedirect: AxiosBeforeRedirect
  readonly transport: { request: (...given: unknown[]) => unknown }
}

/** An instance whose adapter shows the final config, and answers with nothing. */
export function client(
  how: 'attachAuth' | 'createAuthInterceptor',
  onFinal: (final: Final) => unknown,
  config: CreateAxiosDefaults = {},
  attach?: AttachOptions,
) {
  const api = axios.create({
    ...config,
    adapter: async (final) => {
      const request = onFinal(final as unknown as Final)
      return { status: 200, statusText: '', data: '', headers: {}, config: final, request }
    },
  })
  if (how === 'attachAuth') attachAuth(api, TOKENS, attach)
  else api.interceptors.request.use(createAuthInterceptor(TOKENS, attach))
  return api
}

/** A redirect as follow-redirects has it: the headers of the request before, and where it leads. */
export function redirectTo(to: Partial<AxiosRedirectOptions>, headers: Record<string, unknown> = {}) {
  return { href: `${API}/y`, headers: { Authorization: 'Bearer the.one.token', ...headers }, ...to }
}
