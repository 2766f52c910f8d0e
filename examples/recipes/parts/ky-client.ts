/** ky, on a fetch that attaches the token. */
import ky from 'ky'
import { createAuthFetch } from 'merchant-auth'
import { environment, tokens } from './tokens.ts'

export const api = ky.create({
  prefix: environment.apiUrls.merchant,
  fetch: createAuthFetch(tokens),
  timeout: 15_000,
})
