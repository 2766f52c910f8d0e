const read = (name: string): string => {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set`)
  return value
}

export const config = {
  authUrl: read('AUTH_URL'),
  audience: read('AUDIENCE'),
  apiUrl: read('API_URL'),
  clientId: read('CLIENT_ID'),
  clientSecret: read('CLIENT_SECRET'),
}
