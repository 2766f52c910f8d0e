/**
 * A Fastify service: the first token in an onReady hook, before it listens; health checks; an orderly end at SIGTERM,
 * with an onClose hook. It starts itself once more, as the service, and plays the orchestrator.
 */
import type { AddressInfo } from 'node:net'
import axios from 'axios'
import fastify from 'fastify'
import { createTokenProvider, isMerchantAuthError, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { firstToken, pauseAfter } from './support/first-token.ts'
import { checkService, SERVE } from './support/service-check.ts'

async function serve(): Promise<void> {
  const options = optionsFromEnv()
  const tokens = createTokenProvider(options)
  const api = axios.create({ baseURL: options.environment.apiUrls.merchant })
  attachAuth(api, tokens)

  // Fastify gives up on an onReady hook after 10 s; an outage of the token endpoint may last longer.
  const app = fastify({ pluginTimeout: 0 })
  const ending = new AbortController()
  app.addHook('onReady', () => firstToken(tokens, ending.signal))
  app.get('/health/live', () => 'alive')
  app.get('/health/ready', () => 'ready') // it listens only once it has had a token
  app.get<{ Params: { id: string } }>('/orders/:id', async ({ params }) => {
    const order = await api.get(`/orders/${encodeURIComponent(params.id)}`)
    return order.data
  })
  app.setErrorHandler((error, _, reply) => {
    if (!isMerchantAuthError(error)) return reply.send(error)
    // No token can be had at the moment: the callers of this service may come back later.
    return reply
      .code(503)
      .header('Retry-After', Math.ceil(pauseAfter(error) / 1_000))
      .send('No token')
  })

  app.addHook('onSend', async (_, reply) => {
    if (ending.signal.aborted) reply.header('Connection', 'close') // it would be kept for another 72 s
  })
  app.addHook('onClose', () => tokens.close()) // requests in flight have been answered by then

  process.once('SIGTERM', () => {
    ending.abort()
    app.close()
  })
  try {
    await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: process.env['HOST'] ?? '0.0.0.0' })
    console.log(`listens on port ${(app.server.address() as AddressInfo).port}`)
  } catch (error) {
    if (!ending.signal.aborted) throw error
  }
}

if (process.argv[2] === SERVE) await serve()
else await checkService(import.meta.url, { listensBeforeToken: false })
