/** When the lease of whoever asks the token endpoint is given back, and what counts as one. */
import { ProviderClosedError } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { answers, slow } from '../store/memory-store.ts'
import { heldByAnother } from '../store/scenes.ts'
import { granted, hang, MERCHANT_URL, rejection, status } from './harness.ts'

describe('the lease', () => {
  const began = async (): Promise<{ fleet: Fleet } & Process> => {
    const fleet = new Fleet()
    return { fleet, ...fleet.start() }
  }

  it('is given back after the token was written, and not before', async () => {
    const { fleet, provider } = await began()
    fleet.store.faults.set = slow(fleet.clock, 200)
    await provider.getToken()
    await fleet.pass(190)
    expect([fleet.store.leased, fleet.store.keys.length]).toEqual([1, 0])
    await fleet.pass(10)
    expect([fleet.store.leased, fleet.store.keys.length]).toEqual([0, 1])
  })

  it('is given back after the token was written, though the ration could not be', async () => {
    const { fleet, provider } = await began()
    const token = await provider.getToken()
    await quiet()
    fleet.store.faults.set = async (run) => {
      if (fleet.store.asked.at(-1)?.key.includes('.ration-')) throw new Error('no')
      await fleet.clock.sleep(200)
      return await run()
    }
    await provider.renewToken(token, { url: MERCHANT_URL })
    await fleet.pass(190)
    expect(fleet.store.leased).toBe(1)
  })

  it.each([
    ['an error', status(400, { error: 'invalid_request' })],
    ['no token response', granted({ expires_in: 0 })],
  ])('is given back at once when the token endpoint has %s', async (_, answer) => {
    const { fleet, provider } = await began()
    fleet.endpoint.answers.push(answer)
    await rejection(provider.getToken())
    await quiet()
    expect([fleet.store.leased, fleet.store.keys]).toEqual([0, []])
  })

  it('goes to the next process when the token request of one has failed', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(async () => {
      await fleet.clock.sleep(100)
      return new Response('', { status: 400 })
    })
    const [one, two] = [fleet.start(), fleet.start()]
    const failing = rejection(one.provider.getToken())
    await quiet()
    const waiting = two.provider.getToken()
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(200)
    expect(await failing).toMatchObject({ status: 400 })
    expect(fleet.endpoint.count).toBe(2)
  })

  it('is given back when its holder is closed, which writes nothing', async () => {
    const { fleet, provider } = await began()
    fleet.endpoint.answers.push(hang)
    const waiting = rejection(provider.getToken())
    await quiet()
    expect(fleet.store.leased).toBe(1)
    await provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect([fleet.store.leased, fleet.store.keys, fleet.clock.sleeping]).toEqual([0, [], 0])
  })

  it('that arrives after the process was closed is given back', async () => {
    const { fleet, provider } = await began()
    fleet.store.faults.lease = async (run) => {
      const release = await run()
      await fleet.clock.sleep(100)
      return release
    }
    const waiting = rejection(provider.getToken())
    await quiet()
    expect(fleet.store.leased).toBe(1)
    const closing = provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    await fleet.pass(100)
    await closing
    expect([fleet.store.leased, fleet.endpoint.count]).toEqual([0, 0])
  })

  it('is given back when the second look finds a token, for which nothing is asked', async () => {
    const { fleet, token, write, giveBack } = await heldByAnother(60_000)
    giveBack()
    fleet.store.faults.lease = (run) => {
      write()
      return run()
    }
    const { provider, events } = fleet.start()
    expect((await provider.getToken()).value).toBe(token)
    await quiet()
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'release'])
    expect([fleet.endpoint.count, fleet.store.leased, sourcesOf(events)]).toEqual([1, 0, ['store']])
  })

  it('is asked for after a look, and the token endpoint after another', async () => {
    const { fleet, provider } = await began()
    const order: string[] = []
    for (const operation of ['get', 'lease', 'set', 'release'] as const) {
      fleet.store.faults[operation] = (run) => {
        order.push(operation)
        return run()
      }
    }
    fleet.endpoint.answers.push((init) => {
      order.push('token request')
      return granted()(init)
    })
    await provider.getToken()
    await quiet()
    expect(order).toEqual(['get', 'lease', 'get', 'token request', 'set', 'release'])
  })

  it('that a store refuses by null counts as held by another', async () => {
    const { fleet, provider, events } = await began()
    fleet.store.faults.lease = answers(null)
    expect(await fleet.tookMs(provider.getToken())).toBe(11_000)
    await provider.close()
    expect([fleet.store.keys, failuresOf(events)]).toEqual([[], []])
  })

  it.each([
    ['true', true],
    ['a text', 'yes'],
    ['an object', {}],
  ])('that a store gives by %s is one that cannot be given back', async (_, release) => {
    const { fleet, provider, events } = await began()
    fleet.store.faults.lease = answers(release)
    expect(await fleet.tookMs(provider.getToken())).toBe(0)
    await quiet()
    expect(failuresOf(events)).toEqual([{ operation: 'lease' }])
    await provider.close()
  })
})
