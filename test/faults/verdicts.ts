/** The verdict on a URL in every way in which it can be called, on clients that send nothing. */
import type { CreateAxiosDefaults } from 'axios'
import { createAuthFetch, type Environment } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { type Rig, rig } from '../token/harness.ts'
import { agreed, client, HOWS, inputsOf, shown, TOKEN_BEGINS } from './places.ts'
import { tell } from './told.ts'

export type Verdict = 'token' | 'withheld: destination' | 'withheld: own-credentials'
export const TOKEN: Verdict = 'token'
export const DEST: Verdict = 'withheld: destination'
export const OWN: Verdict = 'withheld: own-credentials'
export type Row = readonly [url: string, verdict: Verdict]

/** The places that may have the token, in the tests of URLs that nothing listens on. */
const ENVIRONMENT: Environment = {
  authUrl: 'https://auth.example.com',
  audience: 'https://api.example.com',
  apiUrls: [
    'https://api.example.com/merchant',
    'https://api.example.com/in-store/v1/',
    'https://shop.example.com:8443/a/b',
    'https://bücher.example/merchant',
    'https://[2001:db8::a]/merchant',
    'http://127.0.0.1:8080/merchant',
    'http://[::1]:8080/merchant',
    'http://localhost',
  ],
}

/** Judges each URL of a group in every way in which it can be called, and tells what came of it. */
export function judge(group: string, rows: readonly Row[]): void {
  describe(group, () => {
    it('has eight URLs or more, each once', () => {
      expect(rows.length).toBeGreaterThanOrEqual(8)
      expect(new Set(rows.map(([url]) => url)).size).toBe(rows.length)
    })

    it.for(rows.map(([url, verdict]) => ({ url, verdict, name: shown(url) })))(
      '$name: $verdict',
      async ({ url, verdict, name }, { task }) => {
        const byAxios = await onAxios(url)
        const byFetch = await onFetch(url)
        expect(byAxios).toEqual([verdict, verdict])
        expect(byFetch).toEqual(byFetch.map(() => verdict))
        const row = { table: 'destinations', group, row: name }
        tell(task, { ...row, column: 'axios', cell: agreed(byAxios) })
        tell(task, { ...row, column: 'fetch', cell: agreed(byFetch) })
      },
    )
  })
}

/** By attachAuth and by createAuthInterceptor. */
async function onAxios(url: string): Promise<string[]> {
  const auth = rig([], { environment: ENVIRONMENT })
  let sent: unknown
  const adapter: NonNullable<CreateAxiosDefaults['adapter']> = async (config) => {
    sent = config.headers.get('Authorization')
    return { status: 200, statusText: 'OK', data: '', headers: {}, config }
  }
  const verdicts: string[] = []
  for (const how of HOWS) {
    sent = 'never called'
    await client(auth, how, { adapter }).request({ url })
    verdicts.push(verdictOf(sent, auth))
  }
  return verdicts
}

/** As a string, and where these can be made of it, as a URL and as a Request. */
async function onFetch(url: string): Promise<string[]> {
  const auth = rig([], { environment: ENVIRONMENT })
  let sent: unknown
  const authFetch = createAuthFetch(auth.provider, {
    fetch: async (input, init) => {
      const headers = init?.headers ?? (input instanceof Request ? input.headers : undefined)
      sent = new Headers(headers).get('authorization')
      return new Response()
    },
  })
  const verdicts: string[] = []
  for (const input of inputsOf(url)) {
    sent = 'never called'
    await authFetch(input)
    verdicts.push(verdictOf(sent, auth))
  }
  return verdicts
}

/** What the header and the events say, in one. Takes the events. */
function verdictOf(sent: unknown, { events }: Rig): string {
  const reasons = events.splice(0).flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))
  if (typeof sent === 'string' && sent.startsWith(`Bearer ${TOKEN_BEGINS}`) && reasons.length === 0)
    return TOKEN
  if ((sent ?? undefined) === undefined && reasons.length === 1) return `withheld: ${reasons[0]}`
  return `sent ${String(sent)}, withheld for ${reasons.join()}`
}
