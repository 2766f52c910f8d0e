import { setTimeout as pause } from 'node:timers/promises'

const PAUSE_MS = 2_000

export const fetchToken: typeof fetch = async (url, init) => {
  const response = await fetch(url, init)
  if (response.ok) await pause(PAUSE_MS)
  return response
}
