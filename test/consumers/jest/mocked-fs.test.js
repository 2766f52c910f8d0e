// A mock of fs has what its test needs, and no more.
jest.mock('node:fs', () => ({ readFileSync: jest.fn() }))
jest.mock('fs', () => ({ readFileSync: jest.fn() }))

test('the package can be loaded', () => {
  expect(require('merchant-auth').createTokenProvider).toBeInstanceOf(Function)
})
