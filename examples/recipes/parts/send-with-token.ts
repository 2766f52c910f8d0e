/** The procedure for a client that can send a call twice. Shown in docs/clients.md. */
import type { TokenProvider } from 'merchant-auth'

type Send<Response> = (authorization: string) => Promise<Response>

/** Sends with the token, and again with a newer token if the API rejected the first. */
export async function sendWithToken<Response extends { readonly status: number }>(
  tokens: TokenProvider,
  url: string,
  send: Send<Response>,
): Promise<Response> {
  const token = await tokens.getToken()
  const response = await send(`Bearer ${token.value}`)
  if (response.status !== 401) return response
  const newer = await tokens.renewToken(token, { url }).catch(() => undefined)
  return newer === undefined ? response : await send(`Bearer ${newer.value}`)
}
