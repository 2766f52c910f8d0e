/** Without `connection()`, and with a fetch that caches what does not say otherwise. */
import { merchantFetch } from '../../lib/merchant'

export const fetchCache = 'default-cache'

export default async function Page() {
  const response = await merchantFetch('/orders', { cache: 'no-store' })
  return <p>{`The API returned ${response.status}`}</p>
}
