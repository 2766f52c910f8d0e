import { createAuthFetch } from 'merchant-auth'
import { client } from './generated/hey-api-fetch/client.gen.js'
import { environment, tokens } from './tokens.js'

client.setConfig({ baseUrl: environment.apiUrls.merchant, fetch: createAuthFetch(tokens) })
