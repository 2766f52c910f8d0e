/** A token endpoint at another path. Shown in docs/another-token-endpoint.md. */
const ENDPOINT = 'https://id.example.com/realms/shop/protocol/openid-connect/token'

export const fetchToken: typeof fetch = (_url, init) => fetch(ENDPOINT, init)
