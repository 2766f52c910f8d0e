/** For a GraphQL server that rejects a token with a 200. Named in docs/clients.md. */
import { createAuthFetch } from 'merchant-auth'
import { tokens } from './tokens.ts'

type Result = { errors?: { extensions?: { code?: string } }[] }

/** Turns a 200 that says UNAUTHENTICATED into a 401, after which the token is renewed and the call repeated. */
async function checkedFetch(...request: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(...request)
  const isJson = response.headers.get('content-type')?.includes('json')
  if (response.status !== 200 || !isJson) return response
  const { errors } = (await response.clone().json()) as Result
  const isRejected = errors?.some(({ extensions }) => extensions?.code === 'UNAUTHENTICATED')
  return isRejected ? new Response(response.body, { status: 401, headers: response.headers }) : response
}

export const graphqlFetch = createAuthFetch(tokens, { fetch: checkedFetch })
