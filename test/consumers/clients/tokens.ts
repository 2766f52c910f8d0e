import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { onEvent } from './events'

const options = optionsFromEnv()
export const { environment } = options
export const tokens = createTokenProvider({ ...options, onEvent })
