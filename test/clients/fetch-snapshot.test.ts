import { getEventListeners } from 'node:events'
import { createAuthFetch } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { useGround } from '../support/ground.ts'

const ground = useGround()

const unhandled: unknown[] = []
const note = (reason: unknown): void => void unhandled.push(reason)
beforeEach(() => {
  unhandled.length = 0
  process.on('unhandledRejection', note)
})
afterEach(() => {
  process.off('unhandledRejection', note)
})

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('what a fetch was called with', () => {
  it.each(['while it waits for its token', 'before it is made once more'])(
    'is what is sent, though the caller changes it %s',
    async (when) => {
      if (when !== 'while it waits for its token') {
        await ground.tokens.getToken()
        ground.env.revoke()
      }
      const headers = new Headers()
      const body = Buffer.alloc(4)
      const form = new URLSearchParams()
      const authFetch = createAuthFetch(ground.tokens)
      const calls = [1, 2, 3].map((n) => {
        headers.set('idempotency-key', `key-${n}`)
        body.fill(String(n))
        form.set('n', String(n))
        const init = { method: 'POST', headers, body: n === 3 ? form : body }
        const call = authFetch(`${ground.env.merchantUrl}/${n}`, init)
        init.body = Buffer.from('late')
        return call
      })
      headers.set('idempotency-key', 'late')
      body.fill('x')
      form.set('n', 'x')
      await Promise.all(calls)
      const sent = ground
        .sent()
        .map(({ path, headers, body }) => `${path} ${headers['idempotency-key']} ${body}`)
      expect([...new Set(sent)].sort()).toEqual([
        '/merchant/1 key-1 1111',
        '/merchant/2 key-2 2222',
        '/merchant/3 key-3 n=3',
      ])
    },
  )
})

describe('a signal', () => {
  it('that was aborted before leaves no rejection without a handler', async () => {
    const authFetch = createAuthFetch(ground.tokens)
    const signal = AbortSignal.abort('too late')
    await expect(authFetch(ground.env.merchantUrl, { signal })).rejects.toBe('too late')
    await turn()
    expect(unhandled).toEqual([])
  })

  it('of 10 000 calls gets one listener, and keeps none', async () => {
    const { signal } = new AbortController()
    const authFetch = createAuthFetch(ground.tokens, { fetch: async () => new Response() })
    const calls = Array.from({ length: 10_000 }, () => authFetch(ground.env.merchantUrl, { signal }))
    await turn()
    expect(getEventListeners(signal, 'abort').length).toBeLessThanOrEqual(1)
    await Promise.all(calls)
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })
})
