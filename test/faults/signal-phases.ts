/** The phases of a call in which its caller may leave, each reached for certain and held for as long as a test likes. */
import type { AxiosRequestConfig } from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { scripted } from '../attach/calls.ts'
import { settled } from '../support/clock.ts'
import { granted } from '../token/harness.ts'
import { axiosFor, type Client, type Ground, ground, soon } from './body-calls.ts'

export const PHASES = ['the first token', 'the API', 'the renewal', 'the repeated call'] as const
export type Phase = (typeof PHASES)[number]

/** What a caller may leave by. fetch knows nothing but the signal. */
export type Limits = Pick<
  AxiosRequestConfig,
  'signal' | 'cancelToken' | 'timeout' | 'timeoutErrorMessage' | 'transitional'
>

export interface Held extends AsyncDisposable {
  readonly api: Ground
  /** Calls `/mine` with these limits, and `/other` with none, and gives both when the phase is reached. */
  start(client: Client, limits: Limits): Promise<{ mine: Promise<number>; other: Promise<number> }>
  /** Lets everything that is held go on. */
  release(): void
  /** How often `/mine` has been sent. */
  sends(): number
}

/** The status that a call resolves with. */
export async function call(client: Client, { tokens }: Ground, url: string, limits: Limits): Promise<number> {
  if (client === 'fetch') {
    const { signal } = limits
    const response = await createAuthFetch(tokens)(
      url,
      signal === undefined ? {} : { signal: signal as AbortSignal },
    )
    await response.arrayBuffer()
    return response.status
  }
  return (await axiosFor(client, tokens).get(url, limits)).status
}

/** A token endpoint and an API that hold `/mine` in this phase. */
export async function heldIn(phase: Phase): Promise<Held> {
  const gate = Promise.withResolvers<void>()
  const heldGrant = () => gate.promise.then(() => granted()({}))
  const answers = { 'the first token': [heldGrant], 'the renewal': [granted(), heldGrant] }
  let first: string | undefined
  const server = await scripted(async ({ path, headers: { authorization } }, response) => {
    first ??= authorization
    const refused = (phase === 'the renewal' || phase === 'the repeated call') && authorization === first
    const last = phase === 'the API' || (phase === 'the repeated call' && authorization !== first)
    if (last && path === '/mine') await gate.promise
    response.writeHead(refused ? 401 : 200, { 'content-length': '0' }).end()
  })
  const api = await ground(phase in answers ? answers[phase as keyof typeof answers] : [], server)
  const sends = (): number => server.seen.filter(({ path }) => path === '/mine').length
  const reached: Record<Phase, () => boolean> = {
    'the first token': () => api.endpoint.count === 1,
    'the API': () => sends() === 1,
    'the renewal': () => api.events.filter(({ type }) => type === 'token-rejected').length === 2,
    'the repeated call': () => sends() === 2,
  }
  return {
    api,
    sends,
    release: gate.resolve,
    start: async (client, limits) => {
      if (phase !== 'the first token') await api.tokens.getToken()
      const mine = call(client, api, `${server.url}/mine`, limits)
      const other = call(client, api, `${server.url}/other`, {})
      mine.catch(() => {}) // it may be over before the test looks
      await soon(reached[phase])
      await settled()
      return { mine, other }
    },
    [Symbol.asyncDispose]: async () => {
      gate.resolve()
      await settled()
      await api[Symbol.asyncDispose]()
    },
  }
}
