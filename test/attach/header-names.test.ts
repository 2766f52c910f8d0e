// Names of headers that look like anything but one, and that every client sends all the same.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import axios from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

/** Answers with the names of the headers that carry the token, in lower case. */
const server = createServer(({ rawHeaders }, response) => {
  const names = rawHeaders.filter((_, n) => rawHeaders[n + 1] === 'Bearer static-test-token')
  response.end(JSON.stringify(names.map((name) => name.toLowerCase())))
})
let url: string
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})
afterAll(() => server.close())

const HEADERS = ['constructor', 'toString', 'hasOwnProperty', 'valueOf', 'X-Token', 'Cookie', 'x!#$%&*+^`|~']

describe.each(HEADERS)('the header %s', (header) => {
  const name = header.toLowerCase()
  const tokens = () =>
    createStaticTokenProvider({ environment: { authUrl: url, audience: 'a', apiUrls: [url] } })

  it('carries the token with fetch', async () => {
    const authFetch = createAuthFetch(tokens(), { header })
    expect(await (await authFetch(url)).json()).toEqual([name])
  })

  it.each(['http', 'fetch'])('carries the token with axios and its %s adapter', async (adapter) => {
    const api = axios.create({ adapter, proxy: false })
    attachAuth(api, tokens(), { header })
    expect((await api.post(url, 'abc')).data).toEqual([name])
  })

  it('carries the token with undici', async () => {
    const agent = new Agent()
    const dispatcher = agent.compose(createAuthDispatch(tokens(), { header }))
    expect(await (await request(url, { dispatcher })).body.json()).toEqual([name])
    await agent.close()
  })
})
