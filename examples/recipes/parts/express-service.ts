/** An Express service that calls the merchant API. Named in docs/production.md. */
import type { AddressInfo } from 'node:net'
import axios from 'axios'
import express, { type ErrorRequestHandler } from 'express'
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

const app = express()
app.use((_, response, next) => {
  if (ending.signal.aborted) response.set('Connection', 'close') // see Shutdown
  next()
})
app.get('/health/live', (_, response) => void response.sendStatus(200)) // requests no token
app.get('/health/ready', (_, response) => void response.sendStatus(ready ? 200 : 503))
app.get('/orders/:id', async ({ params: { id } }, response) => {
  if (!/^[\w-]+$/.test(id)) return void response.sendStatus(404) // `..` would call something else
  const { data } = await api.get(`/orders/${id}`, { signal: AbortSignal.timeout(CALL_MS) })
  response.json(data)
})
const respondToFailure: ErrorRequestHandler = (error, _, response, next) => {
  const failure = failureOf(error)
  if (failure === undefined) return next(error)
  response.set(failure.headers).sendStatus(failure.status)
}
app.use(respondToFailure)

const { PORT = '3000', HOST = '0.0.0.0' } = process.env
const server = app.listen(Number(PORT), HOST, (error?: Error) => {
  if (error) throw error
  console.log(`listens on port ${(server.address() as AddressInfo).port}`)
})

function end(): void {
  ready = false
  ending.abort()
  setTimeout(() => {
    server.keepAliveTimeout = 1 // for connections whose response is sent from now on
    server.close(async () => {
      await tokens.close() // last: requests in flight may need the token
      if (process.connected) process.disconnect() // a worker of node:cluster or PM2 lives until then
    })
  }, DRAIN_MS)
}
process.once('SIGTERM', end)
process.once('SIGINT', end) // of PM2, or Ctrl-C
