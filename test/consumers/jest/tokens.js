/** The module of a service that mocked-tokens.test.js replaces. */
const { createTokenProvider } = require('merchant-auth')

const environment = {
  authUrl: 'https://auth.test.example.com',
  audience: 'https://api.test.example.com',
  apiUrls: ['https://api.test.example.com/merchant'],
}
exports.tokens = createTokenProvider({ environment, clientId: 'client', clientSecret: 'client-secret' })
