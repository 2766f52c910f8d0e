jest.mock('./tokens', () => {
  const { createStaticTokenProvider } = require('merchant-auth/testing') // in here: Jest forbids variables from outside
  const { environment } = jest.requireActual('./tokens').tokens
  return { tokens: createStaticTokenProvider({ environment, value: 'test-token' }) }
})
const { tokens } = require('./tokens')

test('the service has the token of the mock', () => {
  expect(tokens.currentToken().value).toBe('test-token')
  expect(tokens.environment.audience).toBe('https://api.test.example.com')
})
