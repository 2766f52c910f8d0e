// A thousand calls to an API that refuses, their answers staggered, or one after another (contract 5.5 to 5.7).
import { describe, expect, it } from 'vitest'
import { CALLS, CLIENTS, callsOverLoopback, costOf, onEach, RULES, type Rule, TABLE } from './api-rig.ts'
import { record } from './cells.ts'

type Row = [row: string, rule: Rule, expected: string]

describe('250 calls at once, their answers staggered', () => {
  it.for(
    onEach<Row>([
      ['401 for ever', RULES.forEver, '250 × 401; 2 tokens, 500 requests'],
      ['401 to every second request', RULES.alternating, '250 × 200; 2 tokens, 375 requests'],
      [
        '401 to half of the requests, at random',
        RULES.atRandom,
        '198 × 200, 52 × 401; 2 tokens, 378 requests',
      ],
    ]),
  )('on %s that meet %s', async ([client, row, rule, expected], { task }) => {
    // The first answers of many are long there, and the token renewed, when the last ones come.
    await using calls = await callsOverLoopback(client, rule, (n) => (n % 10) * 20)
    const statuses = await Promise.all(CALLS.map((n) => calls.get(`/merchant/orders/${n}`)))
    const cell = costOf(statuses, calls)
    expect(cell).toBe(expected)
    record(task, { table: TABLE, group: '250 calls, their answers staggered', row, column: client, cell })
  })

  it.for(CLIENTS)('on %s with tokens that the API accepts only after 2 s', async (client, { task }) => {
    await using calls = await callsOverLoopback(client, RULES.after2Seconds, (n) => (n % 10) * 20)
    const early = await Promise.all(CALLS.map((n) => calls.get(`/merchant/orders/${n}`)))
    expect(costOf(early, calls)).toBe('250 × 401; 2 tokens, 500 requests')
    await calls.clock.advance(2_000)
    const late = await Promise.all(CALLS.map((n) => calls.get(`/merchant/orders/${n}`)))
    const cell = costOf([...early, ...late], calls)
    expect(cell).toBe('250 × 200, 250 × 401; 2 tokens, 750 requests')
    const row = '401 to each token for 2 s, and 250 calls more'
    record(task, { table: TABLE, group: '250 calls, their answers staggered', row, column: client, cell })
  })
})

describe('250 calls one after another, within a second', () => {
  it.for(
    onEach<Row>([
      ['401 for ever', RULES.forEver, '250 × 401; 2 tokens, 251 requests'],
      ['401 to every second request', RULES.alternating, '126 × 200, 124 × 401; 2 tokens, 251 requests'],
      [
        '401 to half of the requests, at random',
        RULES.atRandom,
        '123 × 200, 127 × 401; 2 tokens, 251 requests',
      ],
      ['401 after a redirect', RULES.redirected, '250 × 401; 1 token, 500 requests'],
      ['401 with insufficient_scope', RULES.insufficientScope, '250 × 401; 1 token, 250 requests'],
      ['403', RULES.forbidden, '250 × 403; 1 token, 250 requests'],
      ['401 for ever, renewOnStatus [401, 419]', RULES.status401Of419, '250 × 401; 2 tokens, 251 requests'],
      ['401 for ever, renewOnStatus []', RULES.neverRenewed, '250 × 401; 1 token, 250 requests'],
    ]),
  )('on %s that meet %s', async ([client, row, rule, expected], { task }) => {
    await using calls = await callsOverLoopback(client, rule)
    const statuses: number[] = []
    for (const n of CALLS) {
      statuses.push(await calls.get(`/merchant/orders/${n}`))
      // The other API stays as it is.
      if (n % 100 === 0) expect(await calls.get(`/in-store/sales/${n}`)).toBe(200)
    }
    const cell = costOf(statuses, calls)
    expect(cell).toBe(expected)
    record(task, { table: TABLE, group: '250 calls one after another', row, column: client, cell })
  })
})
