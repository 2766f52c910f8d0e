/** A token that an API refused has been replaced by another process: the newer one is taken, and costs nothing. */
import { describe, expect, it } from 'vitest'
import { type Process, quiet } from '../store/fleet.ts'
import { oneAhead, sharing } from '../store/scenes.ts'
import { IN_STORE_URL, MERCHANT_URL, rejection, status } from './harness.ts'

const url = MERCHANT_URL

describe('a newer token of another process', () => {
  it('is taken although it came between the look at the token and that at the ration', async () => {
    const { fleet, processes, token } = await sharing(2)
    const [one, other] = processes as [Process, Process]
    fleet.store.faults.get = async (run) => {
      if (!fleet.store.asked.at(-1)?.key.includes('.ration-')) return await run()
      fleet.store.faults.get = undefined
      await one.provider.renewToken(token, { url })
      await quiet()
      return await run()
    }
    const newer = await other.provider.renewToken(token, { url })
    expect([newer?.value, fleet.endpoint.count]).toEqual([one.provider.currentToken()?.value, 2])
    expect(other.events.map(({ type }) => type)).not.toContain('renewal-suppressed')
  })

  it('costs nothing of the ration', async () => {
    const { fleet, other, token, newer } = await oneAhead()
    await fleet.skip(1_000) // so that the first one's gap is over
    await other.provider.renewToken(token, { url })
    const third = await other.provider.renewToken(newer, { url })
    expect([newer, undefined]).not.toContain(third?.value)
    expect(fleet.endpoint.count).toBe(3)
  })

  it('is taken while the ration is closed', async () => {
    const { fleet, one, other, token, newer } = await oneAhead()
    await fleet.skip(1_000)
    await other.provider.renewToken(token, { url })
    const third = await other.provider.renewToken(newer, { url }) // and now the gap is 2 s
    await fleet.skip(1_000)
    expect((await one.provider.renewToken(newer, { url }))?.value).toBe(third?.value)
    expect(fleet.endpoint.count).toBe(3)
    expect(one.events.map(({ type }) => type)).not.toContain('renewal-suppressed')
  })

  it('is looked for at most once a second while the ration is closed', async () => {
    const { fleet, one, newer } = await oneAhead()
    await fleet.skip(1_000)
    const latest = String((await one.provider.renewToken(newer, { url }))?.value)
    await quiet()
    fleet.store.asked.length = 0
    await fleet.skip(500)
    const refuse = async (times: number): Promise<void> => {
      for (let time = 0; time < times; time += 1)
        expect(await one.provider.renewToken(latest, { url })).toBeUndefined()
    }
    await refuse(10)
    await fleet.skip(499)
    await refuse(10)
    expect(fleet.store.operations).toEqual([])
    await fleet.skip(1)
    await refuse(10)
    await quiet()
    const once = ['get', 'lease', 'get', 'delete', 'release'] // nobody else is to take it
    expect(fleet.store.operations).toEqual(once)
    await fleet.skip(499)
    await refuse(10)
    expect(fleet.store.operations).toEqual(once)
  })

  it('is taken while the token endpoint is left alone after a failure', async () => {
    const { fleet, processes, token } = await sharing(2)
    const [one, other] = processes as [Process, Process]
    fleet.endpoint.answers.push(status(400))
    await rejection(one.provider.renewToken(token, { url }))
    const newer = await other.provider.renewToken(token, { url: IN_STORE_URL })
    await quiet()
    expect((await one.provider.renewToken(token, { url }))?.value).toBe(newer?.value)
    expect(fleet.endpoint.count).toBe(3)
  })

  it('that is not there leaves the failure, and what remains of its time', async () => {
    const { fleet, processes, token } = await sharing(1)
    const [{ provider }] = processes as [Process]
    fleet.endpoint.answers.push(status(400))
    await rejection(provider.renewToken(token, { url }))
    await fleet.skip(400)
    const error = await rejection(provider.renewToken(token, { url }))
    expect(error).toMatchObject({ status: 400, retryAfterMs: 600 })
    expect(fleet.endpoint.count).toBe(2)
  })
})
