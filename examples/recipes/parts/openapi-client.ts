/** A typed client, on a fetch that attaches the token. */
import { createAuthFetch } from 'merchant-auth'
import createClient from 'openapi-fetch'
import { environment, tokens } from './tokens.ts'

/** In your service, `openapi-typescript` generates this. */
interface paths {
  '/orders': {
    post: {
      requestBody: { content: { 'application/json': { amount: number; currency: string } } }
      responses: { 200: { content: { 'application/json': Order } } }
    }
  }
  '/orders/{id}': {
    get: {
      parameters: { path: { id: string } }
      responses: {
        200: { content: { 'application/json': Order } }
        401: { content: { 'application/json': { error: string } } }
      }
    }
  }
}
type Order = { path: string; body: string; jti: string }

export const api = createClient<paths>({
  baseUrl: environment.apiUrls.merchant,
  fetch: createAuthFetch(tokens),
})
