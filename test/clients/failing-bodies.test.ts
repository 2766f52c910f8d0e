// A body stream that fails or closes during the wait for a token: the call fails as it does without the token.
import { errorMonitor } from 'node:events'
import { createReadStream } from 'node:fs'
import { PassThrough, type Readable } from 'node:stream'
import FormData from 'form-data'
import type { TokenProvider } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { rejectionOf, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { UNDICI } from './conform.ts'
import { AXIOS_FETCH, AXIOS_HTTP, type Client, FETCH, PLAIN_FETCH, PLAIN_HTTP } from './drivers.ts'

const NO_FILE = new URL('no-such-file', import.meta.url)
const FORM = 'a form with a missing file'

/** Streams that fail shortly after they were created, whether or not they are read; for a form, the stream in it. */
const STREAMS: Record<string, () => readonly [stream: Readable, form?: FormData]> = {
  'a missing file': () => [createReadStream(NO_FILE)],
  'a stream that is destroyed with an error': () => [
    destroyed(Object.assign(new Error('cut off'), { code: 'E_CUT' })),
  ],
  'a stream that is destroyed': () => [destroyed()],
  [FORM]: () => {
    const [stream, form] = [createReadStream(NO_FILE), new FormData()]
    form.append('file', stream)
    return [stream, form]
  },
}

function destroyed(error?: Error): Readable {
  const stream = new PassThrough()
  setImmediate(() => stream.destroy(error))
  return stream
}

describe.each([FETCH, UNDICI, AXIOS_HTTP, AXIOS_FETCH, PLAIN_HTTP, PLAIN_FETCH])(
  'a call by $name',
  (driver) => {
    // fetch converts the form-data package's forms to strings
    const streams = Object.entries(STREAMS).filter(([what]) => driver.name.includes('http') || what !== FORM)
    const options = [FETCH, UNDICI].includes(driver) ? {} : { timeout: 2_000, maxRedirects: 0 }

    it.each(streams)(
      'fails as it does without the token if its body fails during the wait: %s',
      async (_, make) => {
        await using server = await scripted((_, response) => response.end())
        const outcomeOf = async (send: (get: TokenProvider['getToken']) => Client) => {
          const [stream, body = stream] = make()
          // errorMonitor is no listener for the error: without one, the process would end.
          const failed = new Promise((resolve) => stream.on(errorMonitor, resolve).on('close', resolve))
          const get = async () => {
            await failed
            await new Promise((resolve) => setImmediate(resolve))
            return token('first.token')
          }
          const call = send(get)({ url: server.url, method: 'POST', body, options })
          const { name, message, code, cause } = (await rejectionOf(call)) as Error & { code?: string }
          await failed
          await new Promise((resolve) => setImmediate(resolve))
          return { name, message, code, cause: cause instanceof Error ? cause.message : undefined }
        }
        const uncaught = vi.fn()
        process.on('uncaughtException', uncaught) // fetch itself does not listen for errors before it reads
        const expected = await outcomeOf(() => driver.create())
        uncaught.mockClear()
        const attached = outcomeOf((get) => driver.create(provided({ get, apiUrls: [server.url] })))
        expect(await attached).toEqual(expected)
        process.off('uncaughtException', uncaught)
        expect(uncaught).not.toHaveBeenCalled()
      },
    )
  },
)
