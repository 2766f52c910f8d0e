/** A token endpoint whose fields have other names, and that wants a further header. Shown in docs/token-endpoint.md. */
export const fetchToken: typeof fetch = async (url, init) => {
  const { client_id, client_secret } = JSON.parse(String(init?.body))
  const response = await fetch(url, {
    ...init, // the signal of timeoutMs, and redirect: 'manual'
    headers: { ...init?.headers, 'x-tenant': 'shop-7' },
    body: JSON.stringify({ clientId: client_id, secret: client_secret }),
  })
  if (!response.ok) return response
  const { data } = JSON.parse(await response.text())
  return Response.json({ access_token: data.token, expires_in: Math.floor(data.lifetimeMs / 1000) })
}
