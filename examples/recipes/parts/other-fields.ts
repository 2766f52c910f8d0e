/** A token endpoint whose fields have other names. Shown in docs/another-token-endpoint.md. */
export const fetchToken: typeof fetch = async (url, init) => {
  const { client_id, client_secret } = JSON.parse(String(init?.body))
  const body = JSON.stringify({ clientId: client_id, secret: client_secret })
  const response = await fetch(url, { ...init, body })
  if (!response.ok) return response
  const { data } = JSON.parse(await response.text())
  return Response.json({ access_token: data.token, expires_in: data.expiresInSeconds, token_type: 'Bearer' })
}
