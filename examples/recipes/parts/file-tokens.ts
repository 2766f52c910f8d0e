/** A provider that shares its token through files. Shown in docs/stores.md. */
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { createFileTokenStore } from 'merchant-auth/file'

const options = optionsFromEnv(process.env, { apis: ['merchant'] })
export const { environment } = options
export const tokens = createTokenProvider({ ...options, store: createFileTokenStore('.tokens') })
