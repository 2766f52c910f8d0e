/** Many processes at once, and several providers of one process, where something goes wrong. */
import { createRedisTokenStore } from 'merchant-auth/redis'
import { describe, expect, it, vi } from 'vitest'
import { Fleet, failuresOf, quiet } from '../store/fleet.ts'
import { SimulatedRedis } from '../support/simulated-redis.ts'
import { granted, rejection, SECRET, status } from './harness.ts'

describe('a crowd of processes', () => {
  it('has two token requests, not one each, where the first holder dies', async () => {
    const fleet = new Fleet()
    const { provider } = await fleet.begin()
    const key = fleet.store.tokenKey
    await provider.close()
    await fleet.store.delete(key)
    await fleet.store.lease?.(key, 10_000) // and nothing more is heard of it
    fleet.endpoint.otherwise = async (init) => {
      await fleet.clock.sleep(400)
      return await granted()(init)
    }
    const before = fleet.endpoint.count
    const waiting = Promise.all(Array.from({ length: 32 }, () => fleet.start().provider.getToken()))
    expect(await fleet.tookMs(waiting)).toBeLessThan(10_600)
    expect(fleet.endpoint.count).toBe(before + 1)
  })

  it('tries one after the other where the token endpoint fails, and hears of it', async () => {
    const fleet = new Fleet()
    fleet.endpoint.otherwise = status(400)
    const processes = Array.from({ length: 8 }, () => fleet.start())
    const failing = Promise.all(processes.map(({ provider }) => rejection(provider.getToken())))
    expect(await fleet.tookMs(failing)).toBeLessThan(1_000)
    for (const error of await failing) expect(error).toMatchObject({ code: 'ERR_TOKEN_STATUS', status: 400 })
    expect(fleet.endpoint.count).toBe(8)
  })
})

describe('two providers of one process on one Redis store', () => {
  it('do not write by the leases of each other', async () => {
    const fleet = new Fleet()
    const redis = new SimulatedRedis(() => performance.now())
    const client = {
      status: 'ready',
      call: vi.fn(),
      eval: async (script: string, count: number, ...rest: string[]) =>
        redis.execute(script, rest.slice(0, count), rest.slice(count)),
    }
    const store = createRedisTokenStore(client)
    let answer = (): void => {}
    fleet.endpoint.answers.push(async (init) => {
      await new Promise<void>((resolve) => {
        answer = resolve
      })
      return await granted({ access_token: 'older.one' })(init)
    })
    const late = fleet.start({ store }).provider.getToken()
    await vi.waitFor(() => expect(fleet.endpoint.count).toBe(1))
    redis.flush() // the lease is lost
    const newer = await fleet.start({ store }).provider.getToken()
    await quiet()
    answer()
    expect((await late).value).toBe('older.one')
    await quiet()
    expect((await fleet.start({ store }).provider.getToken()).value).toBe(newer.value)
  })
})

describe('a process in a cooldown', () => {
  it('does not ask its clientSecret function, and fails at once', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(() => new Promise<string>(() => {}))
    const { provider } = fleet.start({ clientSecret, timeoutMs: 4_000, retries: 0 })
    const first = rejection(provider.getToken())
    expect(await fleet.tookMs(first)).toBe(4_000)
    await fleet.skip(999)
    expect(await fleet.tookMs(rejection(provider.getToken()))).toBe(0)
    expect(clientSecret).toHaveBeenCalledTimes(1)
  })

  it('looks once a second for what other processes have', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(status(400))
    const { provider } = fleet.start()
    await rejection(provider.getToken())
    await quiet()
    await fleet.skip(500)
    const { token } = await fleet.begin()
    expect(await rejection(provider.getToken())).toMatchObject({ status: 400 })
    expect(fleet.store.asked).toEqual([])
    await fleet.skip(499)
    expect((await rejection(provider.getToken())) ?? 'none').toMatchObject({ status: 400 })
    await fleet.skip(1)
    expect((await provider.getToken()).value).toBe(token)
  })
})

describe('what is told of a store', () => {
  it('names no secret as a code', async () => {
    const fleet = new Fleet()
    const clientSecret = 'SWORDFISH_SWORDFISH'
    fleet.store.faults.get = () => Promise.reject(new Error(`${clientSecret} is wrong`))
    const { provider, events } = fleet.start({ clientSecret })
    await provider.getToken()
    expect(failuresOf(events)).toEqual([{ operation: 'get' }])
  })

  it('is told once for each unreadable entry, however long it is looked at', async () => {
    const fleet = new Fleet()
    const encryptionKeys = [`${SECRET}-1`, `${SECRET}-2`]
    await fleet.begin({ encryptionKeys })
    const [key = ''] = fleet.store.keys
    const { provider, events } = fleet.start({ encryptionKeys })
    fleet.store.faults.get = async () => ({ value: 'rubbish', ttlMs: 1_000 })
    await fleet.store.lease?.(key, 2_000)
    await fleet.tookMs(provider.getToken())
    expect(failuresOf(events)).toEqual(Array(2).fill({ operation: 'get', code: 'UNREADABLE' }))
  })
})
