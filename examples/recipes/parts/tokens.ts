/** The provider of a service. Shown in docs/clients.md. */
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'

const options = optionsFromEnv(process.env, { apis: ['merchant'] })
export const { environment } = options
export const tokens = createTokenProvider(options)
