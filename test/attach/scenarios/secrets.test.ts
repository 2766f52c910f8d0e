// Callers of every client find no token in what they get, whatever happens to their call. (Every test of this repository
// that makes a call searches its outcome; here is the proof that the search finds a token.)
import { describe, expect, it } from 'vitest'
import { rejectionOf, useGround } from '../../support/ground.ts'
import { findLeaks } from '../../support/leaks.ts'
import { CLIENTS } from '../conform.ts'
import { AXIOS_FETCH, AXIOS_HTTP } from '../drivers.ts'

const ground = useGround()

describe.each(CLIENTS)('$name shows no token', ({ create }) => {
  const call = { url: '', method: 'POST', body: 'a body' }
  const send = () => create(ground.tokens)({ ...call, url: ground.env.merchantUrl })
  const leaksOf = async (outcome: unknown) =>
    findLeaks(outcome, [(await ground.tokens.getToken()).value, ground.env.clientSecret])

  it('in a response', async () => {
    expect(await leaksOf((await send()).own)).toEqual([])
  })

  it('in a response with status 500', async () => {
    ground.env.fail('merchant', { kind: 'status', status: 500 })
    expect(await leaksOf((await send()).own)).toEqual([])
  })

  it('in the second 401 to a call', async () => {
    ground.env.configure({ rejectAllTokens: true })
    expect(await leaksOf((await send()).own)).toEqual([])
    expect(ground.sent()).toHaveLength(2)
  })

  it('in the error of a connection that is reset', async () => {
    ground.env.fail('merchant', { kind: 'reset' })
    expect(await leaksOf(await rejectionOf(send()))).toEqual([])
  })

  it('in the error of a truncated response', async () => {
    ground.env.fail('merchant', { kind: 'truncated-body' })
    expect(await leaksOf(await rejectionOf(send()))).toEqual([])
  })
})

it.each([AXIOS_HTTP, AXIOS_FETCH])(
  'the search finds a token in a response of plain $name',
  async (client) => {
    const { value } = await ground.tokens.getToken()
    const headers = { Authorization: `Bearer ${value}` }
    const { own } = await client.create()({ url: ground.env.merchantUrl, headers })
    expect(findLeaks(own, [value])).toContain('inspect')
  },
)
