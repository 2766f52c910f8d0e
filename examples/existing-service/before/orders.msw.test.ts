import { HttpResponse, http } from 'msw'
import { setupServer } from 'msw/node'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findOrder } from './orders.ts'

let issued = 0
const server = setupServer(
  http.post('https://auth.test.example.com/oauth/token', () => {
    issued += 1
    return HttpResponse.json({ access_token: `token-${issued}`, expires_in: 3600 })
  }),
  http.get('https://api.test.example.com/merchant/orders/:id', ({ request, params }) =>
    request.headers.get('authorization') === 'Bearer token-1'
      ? new HttpResponse(null, { status: 401 })
      : HttpResponse.json({ id: params['id'], amount: 1200 }),
  ),
)

beforeAll(() => server.listen({ onUnhandledFrame: 'error' }))
afterAll(() => server.close())

test('a call whose token was revoked is repeated with a new one', async () => {
  expect(await findOrder('order-1')).toEqual({ id: 'order-1', amount: 1200 })
  expect(issued).toBe(2)
})
