/** got with withToken. */
import got from 'got'
import { environment, tokens } from './tokens.ts'
import { withToken } from './with-token.ts'

export const api = got.extend(withToken(tokens), { prefixUrl: environment.apiUrls.merchant })
