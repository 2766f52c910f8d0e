export const fetchToken: typeof fetch = async (url, init) => {
  const response = await fetch(url, init)
  return response.ok ? Response.json({ ...JSON.parse(await response.text()), expires_in: 180 }) : response
}
