/** The provider of a service. Shown in docs/recipes.md. */
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'

const options = optionsFromEnv()
export const { environment } = options
export const tokens = createTokenProvider(options)
