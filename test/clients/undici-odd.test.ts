// Odd company of a call of undici's: a redirect that names another place than the connection's, an answer that stalls (contract 3.10, 5.4, 5.5, 5.8).
import { createTokenProvider } from 'merchant-auth'
import { Agent, type Dispatcher, getGlobalDispatcher, request, setGlobalDispatcher } from 'undici'
import { describe, expect, it } from 'vitest'
import { scripted, until, useGround } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { agentWith, at, closing, createAuthDispatch, held, passedOn, renewing, Told } from './undici-calls.ts'

const ground = useGround()

/** An interceptor as a dispatcher gets it that does not say where it is connected, and what it lets through. */
function unsaid() {
  const sent: Dispatcher.DispatchOptions[] = []
  const interceptor = createAuthDispatch(held()) as unknown as (
    dispatch: Dispatcher['dispatch'],
  ) => Dispatcher['dispatch']
  const dispatch = interceptor((options) => {
    sent.push(options)
    return true
  })
  const tokensSent = () => sent.map(({ headers }) => JSON.stringify(headers ?? {}).includes('the.one.token'))
  return { dispatch, tokensSent }
}

describe('where a dispatcher does not say where it is connected', () => {
  const to = (origin: string | undefined) =>
    ({ origin, path: '/merchant/x', method: 'GET' }) as Dispatcher.DispatchOptions

  it.each(['http://elsewhere.example', undefined])(
    'a call that was redirected from %s gets no token',
    (origin) => {
      const { dispatch, tokensSent } = unsaid()
      const handler = new Told() // undici's redirect interceptor makes the next call with the same one
      dispatch(to(origin), handler)
      dispatch(to(at), handler)
      expect(tokensSent()).toEqual([false, false])
    },
  )

  it('a call that is made again, and others, get it', () => {
    const { dispatch, tokensSent } = unsaid()
    const handler = new Told()
    dispatch(to(at), handler)
    dispatch(to(at), handler)
    dispatch(to(at), new Told())
    expect(tokensSent()).toEqual([true, true, true])
  })
})

describe('a dispatcher that carries the token requests, too', () => {
  it('lets them through, although the token endpoint lies below an API', async () => {
    const before = getGlobalDispatcher()
    const { environment, clientId, clientSecret } = ground.sandbox.test
    const apiUrls = [new URL(environment.authUrl).origin]
    const tokens = createTokenProvider({
      environment: { ...environment, apiUrls },
      clientId,
      clientSecret,
    })
    try {
      setGlobalDispatcher(closing(new Agent()).compose(createAuthDispatch(tokens)))
      expect((await fetch(`${ground.sandbox.test.merchantUrl}/x`)).status).toBe(200)
    } finally {
      setGlobalDispatcher(before)
      await tokens.close()
    }
  })
})

describe('a provider of the caller’s own', () => {
  it('need not have a token endpoint', () => {
    const { environment, ...rest } = held()
    const tokens = { ...rest, environment: { ...environment, authUrl: '' } }
    expect(JSON.stringify(passedOn({}, tokens).headers)).toContain('the.one.token')
  })
})

describe('a 401 of undici’s', () => {
  it('that is dropped, and never ends, holds up nothing for long', async () => {
    await using server = await scripted((_, response, nth) => {
      if (nth === 1) response.writeHead(401).write('half')
      else response.end('good')
    })
    const { tokens, renew } = renewing(server.url)
    renew(token('second.token'))
    const dispatcher = closing(new Agent({ connections: 1 })).compose(createAuthDispatch(tokens))
    const { statusCode, body } = await request(server.url, { dispatcher })
    expect([statusCode, await body.text()]).toEqual([200, 'good'])
  })

  it('is answered with the bytes of the time of the call, whatever became of them since', async () => {
    const body = Buffer.from('as asked')
    await using server = await scripted(
      (_, response, nth) => void response.writeHead(nth === 1 ? 401 : 200).end(),
    )
    const tokens = provided({
      current: token('first.token'),
      apiUrls: [server.url],
      renew: async () => {
        body.fill('x')
        return token('second.token')
      },
    })
    await request(server.url, { method: 'POST', body, dispatcher: agentWith(createAuthDispatch(tokens)) })
    await until(() => server.seen.length === 2)
    expect(server.seen.map(({ body: sent }) => sent.toString())).toEqual(['as asked', 'as asked'])
  })
})
