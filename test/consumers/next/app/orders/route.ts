import { merchantFetch } from '../../lib/merchant'

export async function POST(request: Request) {
  const body = await request.text()
  const response = await merchantFetch('/orders', { method: 'POST', body })
  return new Response(`The API returned ${response.status}`)
}
