/** got with withToken. Shown in docs/recipes.md. */
import got from 'got'
import { environment, tokens } from './tokens.ts'
import { withToken } from './with-token.ts'

export const api = got.extend(withToken(tokens), { prefixUrl: environment.apiUrls.merchant })
