import { connection } from 'next/server'
import { Suspense } from 'react'
import { merchantFetch } from '../lib/merchant'

async function Orders() {
  await connection() // the rest runs for each request, and not in `next build`
  const response = await merchantFetch('/orders')
  return <p>{`The API returned ${response.status}`}</p>
}

export default function Page() {
  return (
    <Suspense fallback={<p>Loading …</p>}>
      <Orders />
    </Suspense>
  )
}
