// No token in anything that callers get from axios, and all of it still of use (contract 6). The setup file searches.
import { Agent } from 'node:http'
import { Readable } from 'node:stream'
import { inspect } from 'node:util'
import axios, { type AxiosError, type AxiosResponse } from 'axios'
import { describe, expect, it } from 'vitest'
import { outcomes } from '../support/recorded.ts'
import { ADAPTERS, functionAdapter, rejectionOf, until, useGround } from './calls.ts'

const ground = useGround()
const tokenIn = async (value: unknown) => {
  const { value: token } = await ground.tokens.getToken()
  return inspect(value, { depth: Infinity, showHidden: true }).includes(token)
}

for (const adapter of [...ADAPTERS, functionAdapter]) {
  const name = typeof adapter === 'function' ? 'a function' : adapter
  for (const header of ['Authorization', 'X-Custom']) {
    describe(`${header} on axios by ${name}`, () => {
      it('is in no answer and no error, whose parts still work', async () => {
        ground.env.configure({ header })
        const api = ground.api({ adapter }, { header })
        const answer = await api.post('/orders', { a: 1 })
        ground.env.fail('merchant', { kind: 'status', status: 500, body: { error: 'x' } })
        const failed = (await rejectionOf(api.post('/orders', { a: 1 }))) as AxiosError
        ground.env.fail('merchant', { kind: 'reset' })
        const noAnswer = (await rejectionOf(api.get('/orders'))) as AxiosError
        expect(answer.request).toBeDefined()
        expect(failed.request).toBeDefined()
        expect(failed.response?.request).toBeDefined()
        expect(noAnswer.request).toBeDefined()
        expect(noAnswer.response).toBeUndefined()
        if (adapter !== 'fetch') expect(answer.request.path).toBe('/merchant/orders')
        for (const each of [answer, failed, noAnswer]) {
          expect(await tokenIn(each)).toBe(false)
          // A key without a value would be in the way of whoever takes the headers for another call.
          expect(Object.keys(each.config?.headers ?? {}).map((key) => key.toLowerCase())).not.toContain(
            header.toLowerCase(),
          )
        }
        answer.request = failed.request = 'replaced'
        expect([answer.request, failed.request]).toEqual(['replaced', 'replaced'])
      })
    })
  }

  describe(`a config that was sent by ${name}`, () => {
    it('can be sent again, from an error and from an answer, and gets the token again', async () => {
      const api = ground.api({ adapter })
      ground.env.fail('merchant', { kind: 'status', status: 503 })
      const error = (await rejectionOf(
        api.post('/orders', { a: 1 }, { headers: { 'x-mine': '1' } }),
      )) as AxiosError
      const again = await api.request(error.config ?? {})
      expect(again.status).toBe(200)
      ground.env.revoke()
      const third = await api.request(again.config)
      expect(third.data).toMatchObject({
        method: 'POST',
        path: '/merchant/orders',
        headers: { 'x-mine': '1' },
      })
      expect(third.data.jti).not.toBe(again.data.jti)
      expect(third.config.adapter).toEqual(again.config.adapter)
    })

    it('goes to a plain instance without the token', async () => {
      const { config } = await ground.api({ adapter }).get('/orders')
      await expect(axios.create().request(config)).rejects.toMatchObject({ response: { status: 401 } })
    })
  })

  describe(`a stream by ${name}`, () => {
    const read = async ({ data }: AxiosResponse) => {
      for await (const _ of data);
    }

    it('shows no token, and reads to its end', async () => {
      const answer = await ground.api({ adapter }).get('/orders', { responseType: 'stream' })
      expect(await tokenIn(answer)).toBe(false)
      await read(answer)
      expect(await tokenIn(answer)).toBe(false)
    })

    it('shows none in an error in its middle', async () => {
      ground.env.fail('merchant', { kind: 'truncated-body' })
      const answer = await ground.api({ adapter }).get('/orders', { responseType: 'stream' })
      const error = await rejectionOf(read(answer))
      outcomes.push(error, answer)
      expect(await tokenIn(error)).toBe(false)
    })

    it('shows none when it is aborted', async () => {
      ground.env.fail('merchant', { kind: 'hang', at: 'body' })
      const abort = new AbortController()
      const answer = await ground
        .api({ adapter })
        .get('/orders', { responseType: 'stream', signal: abort.signal })
      const reading = rejectionOf(read(answer))
      abort.abort()
      const error = await reading
      outcomes.push(error, answer)
      expect(await tokenIn(error)).toBe(false)
    })

    it('shows none in an error answer', async () => {
      ground.env.fail('merchant', { kind: 'text', status: 500, body: 'sorry' })
      const call = ground.api({ adapter }).get('/orders', { responseType: 'stream' })
      const error = (await rejectionOf(call)) as AxiosError
      expect(await tokenIn(error)).toBe(false)
      await read(error.response as AxiosResponse)
    })
  })
}

describe('what the caller put into the config', () => {
  it('shows no token: a stream as the body of a good call', async () => {
    const answer = await ground.api({ adapter: 'http' }).post('/orders', Readable.from([Buffer.from('x')]))
    expect(await tokenIn(answer)).toBe(false)
  })

  it('shows no token: an agent with a call under way', async () => {
    ground.env.fail('merchant', { kind: 'hang' })
    const httpAgent = new Agent({ keepAlive: true })
    const api = ground.api({ httpAgent })
    const abort = new AbortController()
    const other = rejectionOf(api.get('/hangs', { signal: abort.signal }))
    while (ground.sent().length < 1) await new Promise(setImmediate)
    const answer = await api.get('/orders')
    const shown = await tokenIn(answer)
    abort.abort()
    await other
    httpAgent.destroy()
    expect(shown).toBe(false)
  })
})

describe('a cancellation', () => {
  it('before the adapter ran shows no token, however it is sent again', async () => {
    const api = ground.api()
    const { config } = await api.get('/orders')
    const error = await rejectionOf(api.request({ ...config, signal: AbortSignal.abort() }))
    expect(axios.isCancel(error)).toBe(true)
    expect(await tokenIn(error)).toBe(false)
  })

  for (const adapter of ADAPTERS) {
    it(`and a time-out during the call show none by ${adapter}`, async () => {
      ground.env.fail('merchant', { kind: 'hang' }, { times: 2 })
      const api = ground.api({ adapter })
      await ground.tokens.getToken()
      const late = await rejectionOf(api.get('/orders', { timeout: 50 }))
      const abort = new AbortController()
      const call = rejectionOf(api.get('/mine', { signal: abort.signal }))
      await until(() => ground.sent().some(({ path }) => path.endsWith('/mine')))
      abort.abort()
      for (const error of [late, await call]) expect(await tokenIn(error)).toBe(false)
    })
  }
})
