/** An Express service that calls the merchant API. Shown in docs/production.md. */
import type { AddressInfo } from 'node:net'
import axios from 'axios'
import express, { type ErrorRequestHandler } from 'express'
import { createTokenProvider, isMerchantAuthError, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { firstToken, pauseAfter } from './first-token.ts'
import './log-events.ts'

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
app.use((_, response, next) => {
  if (ending.signal.aborted) response.set('Connection', 'close') // see Shutdown
  next()
})
app.get('/health/live', (_, response) => void response.sendStatus(200)) // requests no token
app.get('/health/ready', (_, response) => void response.sendStatus(ready ? 200 : 503))
app.get('/orders/:id', async (request, response) => {
  const order = await api.get(`/orders/${encodeURIComponent(request.params.id)}`)
  response.json(order.data)
})
const respondToFailure: ErrorRequestHandler = (error, _, response, next) => {
  const isWithoutToken = isMerchantAuthError(error)
  if (!isWithoutToken && !axios.isAxiosError(error)) return next(error)
  console.error(error.message)
  if (isWithoutToken) response.set('Retry-After', String(Math.ceil(pauseAfter(error) / 1_000)))
  response.sendStatus(isWithoutToken ? 503 : 502) // a 401 of the API is not one of our caller
}
app.use(respondToFailure)

const { PORT = '3000', HOST = '0.0.0.0' } = process.env
const server = app.listen(Number(PORT), HOST, () => {
  console.log(`listens on port ${(server.address() as AddressInfo).port}`)
})

process.once('SIGTERM', () => {
  ready = false
  ending.abort()
  // For a while, responses only tell the clients to open new connections, elsewhere: see Shutdown.
  setTimeout(() => server.close(() => tokens.close()), 1_500) // last: requests in flight may need the token
})
