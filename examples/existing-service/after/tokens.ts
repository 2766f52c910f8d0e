import { createTokenProvider } from 'merchant-auth'
import { config } from './config.ts'

export const tokens = createTokenProvider({
  environment: { authUrl: config.authUrl, audience: config.audience, apiUrls: [config.apiUrl] },
  clientId: config.clientId,
  clientSecret: config.clientSecret,
})
