/** A token endpoint that wants a further header. Shown in docs/another-token-endpoint.md. */
export const fetchToken: typeof fetch = (url, init) =>
  fetch(url, { ...init, headers: { ...init?.headers, 'x-tenant': 'shop-7' } })
