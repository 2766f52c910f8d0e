/** A Fastify service that calls the merchant API. Shown in docs/production.md. */
import type { AddressInfo } from 'node:net'
import axios from 'axios'
import fastify from 'fastify'
import { createTokenProvider, isMerchantAuthError, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { firstToken, pauseAfter } from './first-token.ts'
import './log-events.ts'

const options = optionsFromEnv(process.env, { apis: ['merchant'] })
const tokens = createTokenProvider(options)
const api = axios.create({ baseURL: options.environment.apiUrls.merchant })
attachAuth(api, tokens)

const app = fastify({ pluginTimeout: 0 }) // by default, an onReady hook may take 10 s
const ending = new AbortController()
app.addHook('onReady', () => firstToken(tokens, ending.signal))
app.get('/health/live', () => 'alive')
// It listens only after the first token.
app.get('/health/ready', (_, reply) => reply.code(ending.signal.aborted ? 503 : 200).send())
app.get<{ Params: { id: string } }>('/orders/:id', async ({ params }) => {
  const order = await api.get(`/orders/${encodeURIComponent(params.id)}`)
  return order.data
})
app.setErrorHandler((error, _, reply) => {
  const isWithoutToken = isMerchantAuthError(error)
  if (!isWithoutToken && !axios.isAxiosError(error)) {
    console.error(error)
    return reply.send(error)
  }
  console.error(error.message)
  if (isWithoutToken) reply.header('Retry-After', Math.ceil(pauseAfter(error) / 1_000))
  return reply.code(isWithoutToken ? 503 : 502).send() // a 401 of the API is not one of our caller
})

app.addHook('onSend', async (_, reply) => {
  if (ending.signal.aborted) reply.header('Connection', 'close') // see Shutdown
})
app.addHook('onClose', () => tokens.close()) // requests in flight have their responses by then
process.once('SIGTERM', () => {
  ending.abort()
  setTimeout(() => app.close(), 1_500) // see Shutdown
})

const { PORT = '3000', HOST = '0.0.0.0' } = process.env
try {
  await app.listen({ port: Number(PORT), host: HOST })
  console.log(`listens on port ${(app.server.address() as AddressInfo).port}`)
} catch (error) {
  if (!ending.signal.aborted) throw error // at shutdown, the wait for the first token also ends
}
