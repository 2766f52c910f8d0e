// How a 401 may spell its WWW-Authenticate, and whether it renews the token (contract 5.6, RFC 6750 §3, RFC 9110 §11.6.1).
import { describe, expect, it } from 'vitest'
import { type Client, callsOverLoopback, counted, onEach, refusedWith, TABLE } from './api-rig.ts'
import { tell } from './told.ts'

const LACK_OF_SCOPE: (string | string[])[] = [
  'Bearer error="insufficient_scope"',
  'Bearer error=insufficient_scope',
  'Bearer error = "insufficient_scope"',
  'Bearer realm="merchant", error="insufficient_scope", scope="refunds orders"',
  'Bearer realm="merchant",error="insufficient_scope",error_description="The token is good"',
  'bearer error="insufficient_scope"',
  'BEARER REALM="MERCHANT", ERROR="insufficient_scope"',
  'Basic realm="merchant", Bearer error="insufficient_scope"',
  'Bearer error="insufficient_scope", Basic realm="merchant"',
  ['Basic realm="merchant"', 'Bearer realm="merchant", error="insufficient_scope"'],
]

const OTHERS: (string | string[])[] = [
  'Bearer',
  'Bearer realm="merchant"',
  'Bearer error="invalid_token"',
  'Bearer error=invalid_token',
  'Bearer realm="merchant", error="invalid_token", error_description="The token has expired"',
  'BEARER ERROR="INVALID_TOKEN"',
  'Bearer error="invalid_token", scope="insufficient_scope"',
  'Bearer error="invalid_token", error_description="This is no insufficient_scope"',
  'Bearer error="insufficient_scopes"',
  'Basic realm="insufficient_scope"',
  ['Basic realm="merchant"', 'Bearer error="invalid_token"'],
]

/** What is no parameter of that name and value, though it reads like one. */
const LOOKALIKES = [
  'Bearer error="invalid_token", error_description="not error=insufficient_scope"',
  'Bearer realm="error=insufficient_scope", error="invalid_token"',
  'Bearer x-error="insufficient_scope"',
]

async function costOf(client: Client, challenge: string | readonly string[]): Promise<string> {
  await using calls = await callsOverLoopback(client, refusedWith(challenge))
  expect(await calls.get('/merchant/orders/0')).toBe(401)
  return `${counted(calls.endpoint.count - 1, 'renewal')}, ${counted(calls.apis.merchant, 'request')}`
}

function shown(challenge: string | readonly string[]): string {
  return typeof challenge === 'string' ? challenge : challenge.join(' and ')
}

describe('a 401', () => {
  it.for(onEach(LACK_OF_SCOPE.map((challenge) => [shown(challenge), challenge] as const)))(
    'on %s that says insufficient_scope renews nothing: %s',
    async ([client, row, challenge], { task }) => {
      const cell = await costOf(client, challenge)
      expect(cell).toBe('0 renewals, 1 request')
      tell(task, { table: TABLE, group: '401 that says insufficient_scope', row, column: client, cell })
    },
  )

  it.for(onEach(OTHERS.map((challenge) => [shown(challenge), challenge] as const)))(
    'on %s that says anything else renews the token: %s',
    async ([client, row, challenge], { task }) => {
      const cell = await costOf(client, challenge)
      expect(cell).toBe('1 renewal, 2 requests')
      tell(task, { table: TABLE, group: '401 that says anything else', row, column: client, cell })
    },
  )

  it.for(LOOKALIKES)(
    'whose challenge only reads like insufficient_scope renews the token: %s',
    async (challenge) => {
      expect(await costOf('fetch', challenge)).toBe('1 renewal, 2 requests')
    },
  )
})
