import { Hono } from 'hono'
import { isMerchantAuthError } from 'merchant-auth'
import { merchantFetch } from './merchant.js'

export const app = new Hono()

let isEnding = false
process.once('SIGTERM', () => {
  isEnding = true
})
app.use(async (context, next) => {
  await next()
  if (isEnding) context.header('Connection', 'close') // kept connections keep the process alive
})

app.get('/orders/:id', async (context) => {
  const response = await merchantFetch(`/orders/${encodeURIComponent(context.req.param('id'))}`)
  if (!response.ok) return context.text(`The API returned ${response.status}`, 502)
  return context.json(await response.json())
})

app.onError((error, context) => {
  console.error(error)
  return isMerchantAuthError(error) ? context.text('No token', 503) : context.text('Failed', 500)
})
