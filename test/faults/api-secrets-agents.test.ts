// A call under way holds its token in a socket, and agents know their sockets: what prints of other calls show (contract 6).
import { Agent } from 'node:http'
import type { AxiosInstance } from 'axios'
import { describe, expect, it } from 'vitest'
import { rejectionOf, scripted, until, useGround } from '../attach/calls.ts'
import { findLeaks } from '../support/leaks.ts'
import { outcomes, secrets } from '../support/recorded.ts'
import { GROUP } from './api-prints.ts'
import { TABLE } from './api-rig.ts'
import { tell } from './told.ts'

const ground = useGround()
const ROW = 'a 500, while another call is under way'

/** What is to be printed while another call of the instance hangs at the API, and where a token shows in it. */
async function leaksBesideAnother(
  api: AxiosInstance,
  start: () => Promise<unknown>,
): Promise<{ readonly error: unknown; readonly leaks: readonly string[] }> {
  ground.env.fail('merchant', { kind: 'hang' })
  const abort = new AbortController()
  const other = rejectionOf(api.get('/hangs', { signal: abort.signal }))
  await until(() => ground.sent().length === 1)
  const error = await start()
  const leaks = findLeaks(error, secrets)
  abort.abort()
  await other
  outcomes.length = 0 // the verdict is the test's; some are expected to fail
  return { error, leaks }
}

describe.for(['the default agent', 'an agent of the caller'])('with a call under way on %s', (whose) => {
  const made = (): AxiosInstance =>
    ground.api({
      adapter: 'http',
      ...(whose === 'the default agent' ? {} : { httpAgent: new Agent({ keepAlive: true }) }),
    })

  it('the error of another that had the token shows none', async ({ task }) => {
    const api = made()
    const { error, leaks } = await leaksBesideAnother(api, () => {
      ground.env.fail('merchant', { kind: 'status', status: 500 })
      return rejectionOf(api.get('/orders'))
    })
    expect(error).toMatchObject({ response: { status: 500 } })
    expect(leaks).toEqual([])
    const cell = `status 500; ${leaks.length || 'no'} token`
    tell(task, { table: TABLE, group: GROUP, row: `${ROW} on ${whose}`, column: 'axios http', cell })
  })

  it('the error of another that was cancelled before its adapter ran shows none', async () => {
    const api = made()
    const { error, leaks } = await leaksBesideAnother(api, () =>
      rejectionOf(api.get('/orders', { signal: AbortSignal.abort() })),
    )
    expect(error).toMatchObject({ code: 'ERR_CANCELED' })
    expect(leaks).toEqual([])
  })

  // Its request is not hidden for its own sake: its agent knows the requests of the others.
  it('the error of another that went elsewhere, without the token, shows none', async ({ task }) => {
    await using elsewhere = await scripted((_, response) => void response.writeHead(500).end())
    const api = made()
    const { error, leaks } = await leaksBesideAnother(api, () => rejectionOf(api.get(elsewhere.url)))
    expect(error).toMatchObject({ response: { status: 500 } })
    expect(leaks).toEqual([])
    const cell = `status 500; ${leaks.length || 'no'} token`
    const row = `a 500 elsewhere, while a call is under way on ${whose}`
    tell(task, { table: TABLE, group: GROUP, row, column: 'axios http', cell })
  })
})
