import { HttpResponse, http } from 'msw'

const token = { access_token: 'abc', expires_in: 3600, token_type: 'Bearer', scope: 'merchant' }

/** Pass them to `setupServer` of `msw/node`. */
export const handlers = [
  http.post('https://auth.test.example.com/oauth/token', () => HttpResponse.json(token)),
  http.post('https://api.test.example.com/merchant/orders', ({ request }) => {
    const accepted = request.headers.get('authorization') === `Bearer ${token.access_token}`
    return accepted ? HttpResponse.json({ id: 'order-1' }) : new HttpResponse(null, { status: 401 })
  }),
]
