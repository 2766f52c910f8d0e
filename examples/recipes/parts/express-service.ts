/** An Express service that calls the merchant API. Shown in docs/production.md. */
import type { AddressInfo } from 'node:net'
import axios from 'axios'
import express, { type ErrorRequestHandler } from 'express'
import { createTokenProvider, isMerchantAuthError, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { firstToken, pauseAfter } from './first-token.ts'

const options = optionsFromEnv(process.env, { apis: ['merchant'] })
const tokens = createTokenProvider(options)
const api = axios.create({ baseURL: options.environment.apiUrls.merchant })
attachAuth(api, tokens)

let ready = false
const ending = new AbortController()
firstToken(tokens, ending.signal).then(
  () => {
    ready = true
  },
  () => {}, // it rejects only at shutdown
)

const app = express()
app.get('/health/live', (_, response) => void response.sendStatus(200)) // requests no token
app.get('/health/ready', (_, response) => void response.sendStatus(ready ? 200 : 503))
app.get('/orders/:id', async (request, response) => {
  const order = await api.get(`/orders/${encodeURIComponent(request.params.id)}`)
  response.json(order.data)
})
const respondWithoutToken: ErrorRequestHandler = (error, _, response, next) => {
  if (!isMerchantAuthError(error)) return next(error)
  response.set('Retry-After', String(Math.ceil(pauseAfter(error) / 1_000))).sendStatus(503)
}
app.use(respondWithoutToken)

const { PORT = '3000', HOST = '0.0.0.0' } = process.env
const server = app.listen(Number(PORT), HOST, () => {
  console.log(`listens on port ${(server.address() as AddressInfo).port}`)
})

process.once('SIGTERM', () => {
  ready = false
  ending.abort()
  const sweep = setInterval(() => server.closeIdleConnections(), 100) // see Shutdown
  server.close(async () => {
    clearInterval(sweep)
    await tokens.close() // last: requests in flight may still need the token
  })
})
