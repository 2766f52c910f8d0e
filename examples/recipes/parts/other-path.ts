/** A token endpoint at another path. Shown in docs/another-token-endpoint.md. */
const PATH = 'protocol/openid-connect/token'

export const fetchToken: typeof fetch = (url, init) => fetch(String(url).replace(/oauth\/token$/, PATH), init)
