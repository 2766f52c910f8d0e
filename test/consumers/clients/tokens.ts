import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { onEvent } from './events'

const options = optionsFromEnv(process.env, { apis: ['merchant'] })
export const { environment } = options
export const tokens = createTokenProvider({ ...options, onEvent })
