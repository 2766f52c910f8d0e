/** Imports on the client what belongs on the server. */
'use client'
import { merchantFetch } from '../../lib/merchant'

export default function Page() {
  return (
    <button type="button" onClick={() => merchantFetch('/orders')}>
      Orders
    </button>
  )
}
