// A thousand calls at once to an API that refuses (contract 5.5 to 5.7): what their callers get, and what it costs.
import { describe, expect, it } from 'vitest'
import {
  CALLS,
  CLIENTS,
  callsOverLoopback,
  costOf,
  onEach,
  RULES,
  type Rule,
  TABLE,
  tally,
} from './api-rig.ts'
import { record } from './cells.ts'

const GROUP = '250 calls at once'

describe(GROUP, () => {
  it.for(CLIENTS)('on %s that meet 401 for ever leave the other API unharmed', async (client, { task }) => {
    await using calls = await callsOverLoopback(client, RULES.forEver)
    const both = await Promise.all(
      CALLS.map((n) => Promise.all([calls.get(`/merchant/orders/${n}`), calls.get(`/in-store/sales/${n}`)])),
    )
    const refusing = costOf(
      both.map(([status]) => status),
      calls,
    )
    const healthy = `${tally(both.map(([, status]) => status))}; ${calls.apis.inStore} requests`
    expect(refusing).toBe('250 × 401; 2 tokens, 500 requests')
    expect(healthy).toBe('250 × 200; 250 requests')
    expect(calls.events.filter(({ type }) => type === 'token-rejected').length).toBeLessThanOrEqual(250)
    const place = { table: TABLE, group: GROUP, column: client }
    record(task, { ...place, row: '401 for ever', cell: refusing })
    record(task, { ...place, row: 'the other API meanwhile', cell: healthy })
  })

  it.for(
    onEach<[string, Rule, string]>([
      ['401, error="invalid_token", for ever', RULES.invalidToken, '250 × 401; 2 tokens, 500 requests'],
      ['401 to every second request', RULES.alternating, '250 × 200; 2 tokens, 375 requests'],
      [
        '401 to half of the requests, at random',
        RULES.atRandom,
        '198 × 200, 52 × 401; 2 tokens, 378 requests',
      ],
      ['401 after a redirect', RULES.redirected, '250 × 401; 1 token, 500 requests'],
      ['401 with insufficient_scope', RULES.insufficientScope, '250 × 401; 1 token, 250 requests'],
      ['403', RULES.forbidden, '250 × 403; 1 token, 250 requests'],
      ['419 for ever, renewOnStatus [401, 419]', RULES.status419, '250 × 419; 2 tokens, 500 requests'],
      ['401 for ever, renewOnStatus []', RULES.neverRenewed, '250 × 401; 1 token, 250 requests'],
    ]),
  )('on %s that meet %s', async ([client, row, rule, expected], { task }) => {
    await using calls = await callsOverLoopback(client, rule)
    const statuses = await Promise.all(CALLS.map((n) => calls.get(`/merchant/orders/${n}`)))
    const cell = costOf(statuses, calls)
    expect(cell).toBe(expected)
    record(task, { table: TABLE, group: GROUP, row, column: client, cell })
  })

  it.for(CLIENTS)('on %s, of which only the first token is accepted', async (client, { task }) => {
    await using calls = await callsOverLoopback(client, RULES.onlyTheFirst)
    expect(await calls.get('/merchant/orders/0')).toBe(200)
    await calls.clock.advance(86_400_000) // the first one has expired
    calls.apis.merchant = 0
    const statuses = await Promise.all(CALLS.map((n) => calls.get(`/merchant/orders/${n}`)))
    const cell = costOf(statuses, calls)
    expect(cell).toBe('250 × 401; 3 tokens, 500 requests')
    const row = '401 to all tokens but one that has expired'
    record(task, { table: TABLE, group: GROUP, row, column: client, cell })
  })
})
