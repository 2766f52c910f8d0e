import axios from 'axios'
import { config } from './config.ts'

let token = ''
let expiresAt = 0

export async function getToken(): Promise<string> {
  if (Date.now() >= expiresAt) {
    const { data } = await axios.post(`${config.authUrl}/oauth/token`, {
      grant_type: 'client_credentials',
      client_id: config.clientId,
      client_secret: config.clientSecret,
      audience: config.audience,
    })
    token = data.access_token
    expiresAt = Date.now() + data.expires_in * 1_000
  }
  return token
}

export function forgetToken(): void {
  expiresAt = 0
}
