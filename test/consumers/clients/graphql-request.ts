import { GraphQLClient } from 'graphql-request'
import { createAuthFetch } from 'merchant-auth'
import { environment, tokens } from './tokens.js'

const url = `${environment.apiUrls.merchant}/graphql`
export const graphql = new GraphQLClient(url, { fetch: createAuthFetch(tokens) })
