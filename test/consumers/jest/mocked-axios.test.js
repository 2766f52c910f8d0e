jest.mock('axios', () => {
  const interceptors = { request: { use: jest.fn(), eject: jest.fn() }, response: { use: jest.fn() } }
  const api = { get: jest.fn(async () => ({ status: 200, data: { id: 'order-1' } })), interceptors }
  return { ...api, create: () => api }
})

const axios = require('axios')
const { attachAuth } = require('merchant-auth/axios')
const { createStaticTokenProvider } = require('merchant-auth/testing')

const api = axios.create() // in the service
attachAuth(api, createStaticTokenProvider())

test('an order is found', async () => {
  expect((await api.get('/orders/1')).data.id).toBe('order-1')
  expect(axios.get).toHaveBeenCalledWith('/orders/1')
})
