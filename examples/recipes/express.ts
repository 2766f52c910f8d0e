/**
 * An Express service: a first token at the start, health checks, and an orderly end at SIGTERM. It starts itself once
 * more, as the service, and plays the orchestrator.
 */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import axios from 'axios'
import express, { type ErrorRequestHandler } from 'express'
import { createTokenProvider, isMerchantAuthError, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { firstToken, pauseAfter } from './support/first-token.ts'
import { checkService, SERVE } from './support/service-check.ts'

async function serve(): Promise<void> {
  const options = optionsFromEnv()
  const tokens = createTokenProvider(options)
  const api = axios.create({ baseURL: options.environment.apiUrls.merchant })
  attachAuth(api, tokens)

  let ready = false
  const ending = new AbortController()
  const app = express()
  // Asks for no token: a restart of this process would mend nothing at the token endpoint.
  app.get('/health/live', (_, response) => void response.sendStatus(200))
  // Has had a token, and is not about to end. Why no more than that: docs/production.md.
  app.get('/health/ready', (_, response) => void response.sendStatus(ready ? 200 : 503))
  app.get('/orders/:id', async (request, response) => {
    const order = await api.get(`/orders/${encodeURIComponent(request.params.id)}`)
    response.json(order.data)
  })
  app.use(answerNoToken)

  const server = createServer(app)
  process.once('SIGTERM', async () => {
    ready = false
    ending.abort()
    await drain(server)
    await tokens.close() // last: requests in flight may still need the token
  })
  const onToken = (): void => {
    ready = true
  }
  firstToken(tokens, ending.signal).then(onToken, () => {}) // it rejects only at the end
  server.listen(Number(process.env['PORT'] ?? 3000), process.env['HOST'] ?? '0.0.0.0')
  await once(server, 'listening')
  console.log(`listens on port ${(server.address() as AddressInfo).port}`)
}

/** No token can be had at the moment: the callers of this service may come back later. */
const answerNoToken: ErrorRequestHandler = (error, _, response, next) => {
  if (!isMerchantAuthError(error)) return next(error)
  response.set('Retry-After', String(Math.ceil(pauseAfter(error) / 1_000))).sendStatus(503)
}

/** Takes no new connection, and resolves when the requests in flight have been answered. */
async function drain(server: Server): Promise<void> {
  server.close()
  // Connections that are idle now are closed at once; one whose request is answered later would be kept for 5 s.
  const sweep = setInterval(() => server.closeIdleConnections(), 100)
  await once(server, 'close')
  clearInterval(sweep)
}

if (process.argv[2] === SERVE) await serve()
else await checkService(import.meta.url, { listensBeforeToken: true })
