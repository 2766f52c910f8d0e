/** The procedure for a client that can send a call twice. Shown in docs/clients.md. */
import type { TokenProvider } from 'merchant-auth'

/** `discard` frees the connection of a response whose body is a stream. */
type ApiResponse = { status: number; headers: Headers; discard?: () => unknown }
type Send = (url: string, headers: Record<string, string>) => Promise<ApiResponse>

/** Sends with the token, and again with a newer token if the API rejected the first. */
export async function sendWithToken(tokens: TokenProvider, url: string, send: Send): Promise<ApiResponse> {
  const token = tokens.currentToken() ?? (await tokens.getToken())
  const response = await send(url, { authorization: `Bearer ${token.value}` })
  const lacksScope = /error="?insufficient_scope/i.test(response.headers.get('www-authenticate') ?? '')
  if (response.status !== 401 || lacksScope) return response // another token would have the same scope
  const newer = await tokens.renewToken(token, { url }).catch(() => undefined)
  if (newer === undefined) return response
  await response.discard?.()
  return await send(url, { authorization: `Bearer ${newer.value}` })
}
