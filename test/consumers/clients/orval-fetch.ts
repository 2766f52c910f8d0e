import { createAuthFetch } from 'merchant-auth'
import { environment, tokens } from './tokens.js'

const authFetch = createAuthFetch(tokens)

export async function callApi<T>(path: string, init?: RequestInit): Promise<T> {
  const response = await authFetch(environment.apiUrls.merchant + path, init)
  const text = await response.text()
  const isJson = text !== '' && response.headers.get('content-type')?.includes('json')
  const data: unknown = isJson ? JSON.parse(text) : text || undefined // a gateway's error may be HTML
  return { data, status: response.status, headers: response.headers } as T
}
