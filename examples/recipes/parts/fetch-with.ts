/** A fetch with an undici dispatcher. Shown in docs/production.md. */
import { type Dispatcher, type RequestInit, fetch as undiciFetch } from 'undici'

/** A dispatcher needs the fetch of the same undici: Node.js' own fetch contains another version. */
export function fetchWith(dispatcher: Dispatcher): typeof fetch {
  const send: unknown = (url: string | URL, init?: RequestInit) => undiciFetch(url, { ...init, dispatcher })
  return send as typeof fetch
}
