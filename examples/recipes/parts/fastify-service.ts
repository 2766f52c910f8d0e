/** A Fastify service that calls the merchant API. Named in docs/production.md. */
import type { AddressInfo } from 'node:net'
import axios from 'axios'
import fastify from 'fastify'
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { failureOf } from './api-failure.ts'
import { firstToken } from './first-token.ts'
import './log-events.ts'

const options = optionsFromEnv(process.env, { apis: ['merchant'] })
const tokens = createTokenProvider(options)
const api = axios.create({ baseURL: options.environment.apiUrls.merchant })
attachAuth(api, tokens)

const CALL_MS = 15_000 // above the provider's timeoutMs: see Timeouts
const DRAIN_MS = 1_500 // until the load balancer knows: see Shutdown

let ready = false
const ending = new AbortController()
firstToken(tokens, ending.signal).then(
  () => {
    ready = true
  },
  () => {}, // it rejects only at shutdown
)

const app = fastify()
app.get('/health/live', () => 'alive') // requests no token
app.get('/health/ready', (_, reply) => reply.code(ready ? 200 : 503).send())
app.get<{ Params: { id: string } }>('/orders/:id', async ({ params: { id } }, reply) => {
  if (!/^[\w-]+$/.test(id)) return reply.code(404).send() // `..` would call something else
  const { data } = await api.get(`/orders/${id}`, { signal: AbortSignal.timeout(CALL_MS) })
  return data
})
app.setErrorHandler((error, _, reply) => {
  const failure = failureOf(error)
  if (failure !== undefined) return reply.code(failure.status).headers(failure.headers).send()
  console.error(error)
  return reply.send(error)
})

app.addHook('onSend', async (_, reply) => {
  if (ending.signal.aborted) reply.header('Connection', 'close') // see Shutdown
})
app.addHook('onClose', () => tokens.close()) // requests in flight have their responses by then

function end(): void {
  ready = false
  ending.abort()
  setTimeout(async () => {
    await app.close()
    if (process.connected) process.disconnect() // a worker of node:cluster or PM2 lives until then
  }, DRAIN_MS)
}
process.once('SIGTERM', end)
process.once('SIGINT', end) // of PM2, or Ctrl-C

const { PORT = '3000', HOST = '0.0.0.0' } = process.env
await app.listen({ port: Number(PORT), host: HOST })
console.log(`listens on port ${(app.server.address() as AddressInfo).port}`)
