/** undici's own functions, with the token attached above its retry interceptor. Shown in docs/clients.md. */
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, interceptors, request } from 'undici'
import { environment, tokens } from './tokens.ts'

const retry = interceptors.retry({ throwOnError: false })
export const dispatcher = new Agent().compose(retry, createAuthDispatch(tokens))

export async function createOrder(body: string) {
  return await request(`${environment.apiUrls.merchant}/orders`, { dispatcher, method: 'POST', body })
}
