/** A cached function that needs a token. */
import { connection } from 'next/server'
import { Suspense } from 'react'
import { merchantFetch } from '../../lib/merchant'

async function orders() {
  'use cache'
  const response = await merchantFetch('/orders')
  return `The API returned ${response.status}`
}

async function Orders() {
  await connection()
  return <p>{await orders()}</p>
}

export default function Page() {
  return (
    <Suspense>
      <Orders />
    </Suspense>
  )
}
