// A stream that fails, or is closed, while its call waits for a token: as it would without the wait (contract 5.2, 5.8).
import { createReadStream } from 'node:fs'
import { PassThrough, type Readable } from 'node:stream'
import axios, { type AxiosInstance } from 'axios'
import FormData from 'form-data'
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it, vi } from 'vitest'
import { ADAPTERS, rejectionOf, type Scripted, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'

const NO_FILE = new URL('no-such-file', import.meta.url)

const FORM = 'a form of such a file'

/** Streams that fail a moment after they were made, if anybody reads them or not. */
const STREAMS: Record<string, () => Readable> = {
  'a file that is not there': () => createReadStream(NO_FILE),
  'one that is destroyed with an error': () =>
    destroyed(Object.assign(new Error('cut off'), { code: 'E_CUT' })),
  'one that is destroyed': () => destroyed(),
  [FORM]: () => {
    const form = new FormData()
    form.append('file', createReadStream(NO_FILE))
    return form as unknown as Readable
  },
}

function destroyed(error?: Error): Readable {
  const stream = new PassThrough()
  setImmediate(() => stream.destroy(error))
  return stream
}

type Call = (url: string, body: Readable) => Promise<unknown>

/** A provider that has a token when the stream has failed. */
function late(server: Scripted): TokenProvider {
  const get = async () => {
    await new Promise((resolve) => setTimeout(resolve, 50))
    return token('first.token')
  }
  return provided({ get, apiUrls: [server.url] })
}

const onAxios =
  (adapter: string, attach?: (api: AxiosInstance) => void): Call =>
  (url, body) => {
    const api = axios.create({ adapter, timeout: 2_000, maxRedirects: 0 })
    attach?.(api)
    return api.post(url, body)
  }

const post = (body: Readable) => ({ method: 'POST', body, duplex: 'half' }) as unknown as RequestInit

interface Way {
  readonly plain: Call
  readonly ours: (tokens: TokenProvider) => Call
}

const WAYS: Record<string, Way> = {
  fetch: {
    plain: (url, body) => fetch(url, post(body)),
    ours: (tokens) => (url, body) => createAuthFetch(tokens)(url, post(body)),
  },
  ...Object.fromEntries(
    ADAPTERS.flatMap((adapter): [string, Way][] => [
      [
        `attachAuth, ${adapter}`,
        { plain: onAxios(adapter), ours: (tokens) => onAxios(adapter, (api) => attachAuth(api, tokens)) },
      ],
      [
        `createAuthInterceptor, ${adapter}`,
        {
          plain: onAxios(adapter),
          ours: (tokens) =>
            onAxios(adapter, (api) => {
              api.interceptors.request.use(createAuthInterceptor(tokens))
            }),
        },
      ],
    ]),
  ),
}

async function outcomeOf(call: Promise<unknown>): Promise<object> {
  const { name, message, code, cause } = (await rejectionOf(call)) as Error & { code?: string }
  return { name, message, code, cause: cause instanceof Error ? cause.message : undefined }
}

describe.each(Object.entries(WAYS))('by %s', (name, { plain, ours }) => {
  // fetch takes the form-data package's forms for texts
  const streams = Object.entries(STREAMS).filter(([what]) => name.endsWith('http') || what !== FORM)

  it.each(streams)('%s ends its call as it does without the token', async (_, stream) => {
    await using server = await scripted((_, response) => void response.end())
    const uncaught = vi.fn()
    process.on('uncaughtException', uncaught) // fetch itself does not listen before it reads
    const expected = await outcomeOf(plain(server.url, stream()))
    await new Promise((resolve) => setImmediate(resolve))
    uncaught.mockClear()
    expect(await outcomeOf(ours(late(server))(server.url, stream()))).toEqual(expected)
    await new Promise((resolve) => setImmediate(resolve))
    process.off('uncaughtException', uncaught)
    expect(uncaught).not.toHaveBeenCalled()
  })
})
