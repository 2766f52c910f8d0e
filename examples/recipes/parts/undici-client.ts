/** undici's own functions, with the token attached above its retry interceptor. Shown in docs/clients.md. */
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, interceptors, request } from 'undici'
import { environment, tokens } from './tokens.ts'

export const dispatcher = new Agent().compose(
  interceptors.retry({ throwOnError: false }),
  createAuthDispatch(tokens),
)

export async function createOrder(amount: number) {
  const url = `${environment.apiUrls.merchant}/orders`
  const headers = { 'content-type': 'application/json' }
  return await request(url, { dispatcher, method: 'POST', headers, body: JSON.stringify({ amount }) })
}
