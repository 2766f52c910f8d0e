/** A token endpoint that takes the credentials by HTTP Basic. Shown in docs/another-token-endpoint.md. */
export const fetchToken: typeof fetch = (url, init) => {
  const {
    client_id,
    client_secret,
    audience: _,
    ...fields
  } = Object.fromEntries(
    new URLSearchParams(String(init?.body)), // bodyFormat: 'form'
  )
  const credentials = [client_id, client_secret].map((text = '') => encodeURIComponent(text)).join(':')
  const headers = { ...init?.headers, authorization: `Basic ${btoa(credentials)}` }
  return fetch(url, { ...init, headers, body: new URLSearchParams(fields).toString() })
}
