/** The environments of a service. Shown in docs/options.md. */
import { defineEnvironments } from 'merchant-auth'

export const environments = defineEnvironments({
  production: {
    authUrl: 'https://auth.example.com',
    audience: 'https://api.example.com',
    apiUrls: { merchant: 'https://api.example.com/merchant', inStore: 'https://api.example.com/in-store' },
  },
  test: {
    authUrl: 'https://auth.test.example.com',
    audience: 'https://api.test.example.com',
    apiUrls: {
      merchant: 'https://api.test.example.com/merchant',
      inStore: 'https://api.test.example.com/in-store',
    },
  },
})
