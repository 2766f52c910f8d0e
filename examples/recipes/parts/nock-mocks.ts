import nock from 'nock'

const audience = 'https://api.test.example.com'

/** The token endpoint returns this token once. */
export function mockToken(value: string): void {
  nock('https://auth.test.example.com')
    .post('/oauth/token', { client_id: /./, client_secret: /./, audience, grant_type: 'client_credentials' })
    .reply(200, { access_token: value, expires_in: 3600, token_type: 'Bearer', scope: 'merchant' })
}

/** The API gets one order with this token. */
export function mockOrder(token: string): nock.Interceptor {
  return nock(audience, { reqheaders: { authorization: `Bearer ${token}` } }).post('/merchant/orders', {
    amount: 1200,
  })
}
