// What a call leaves of the config that it was made with: all as it was before (contract 5.2, 6).
import { Agent } from 'node:http'
import { inspect } from 'node:util'
import axios, { type CreateAxiosDefaults, type InternalAxiosRequestConfig } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { ENVIRONMENT, MERCHANT_URL, rig } from '../token/harness.ts'
import { answering, type FakeAnswer, fakeApi, type OwnAdapter } from './axios-fakes.ts'
import { rejectionOf, scripted } from './calls.ts'

const CHANGED = ['beforeRedirect', 'transport', 'fetchOptions', 'env', 'data'] as const
const FORM = new FormData()
FORM.append('a', '1')

/** Makes a call in which a header of another name is sent. Gives its config before, during and after it. */
async function callWith(answers: FakeAnswer[], config: CreateAxiosDefaults, bare = false) {
  const during: InternalAxiosRequestConfig[] = []
  const inner = answering(answers)
  const adapter: OwnAdapter = (final) => {
    during.push({ ...final, headers: final.headers.concat() })
    during.push(final)
    return inner(final)
  }
  const options = { baseURL: MERCHANT_URL, adapter: adapter as never, ...config }
  const api = bare ? (new axios.Axios(options as never) as never as typeof axios) : axios.create(options)
  let before: InternalAxiosRequestConfig | undefined
  api.interceptors.request.use((given) => {
    before = { ...given }
    return given
  })
  attachAuth(api, rig().provider, { header: 'X-Token' })
  const outcome = await api.post('/1', config.data ?? 'text').then(
    () => undefined,
    (error: unknown) => error,
  )
  const [sent, after] = during
  if (before === undefined || sent === undefined || after === undefined) throw new Error('It was not sent')
  return { before, sent, after, outcome, sends: during.length / 2 }
}

const OUTCOMES: [string, FakeAnswer[], number][] = [
  ['a success', [], 1],
  ['a renewal', [{ status: 401 }], 2],
  ['a failure', [() => Promise.reject(new Error('failed'))], 1],
  [
    'a throw',
    [
      () => {
        throw new Error('failed')
      },
    ],
    1,
  ],
]

for (const [name, answers, count] of OUTCOMES) {
  describe(`${name} leaves of its config`, () => {
    it('nothing but what was there', async () => {
      const { before, sent, after, outcome, sends } = await callWith(answers, {})
      expect(sends).toBe(count)
      expect(outcome).toEqual(count === 1 && answers.length > 0 ? new Error('failed') : undefined)
      expect(Object.keys(sent)).toEqual(expect.arrayContaining(['beforeRedirect', 'fetchOptions', 'env']))
      expect(Object.keys(after).sort()).toEqual(Object.keys(before).sort())
      expect(sent.headers.get('X-Token')).toMatch(/^Bearer head\.body\.signature-\d+$/)
      expect(after.headers.has('X-Token')).toBe(false)
      expect(after.headers.toJSON()).toEqual({
        Accept: 'application/json, text/plain, */*',
        'Content-Type': 'application/x-www-form-urlencoded',
      })
    })

    it('no trace where there are no defaults', async () => {
      const { sent, after } = await callWith(answers, {}, true)
      expect(sent.env).toEqual({ fetch: expect.any(Function) })
      expect(CHANGED.filter((key) => key in after)).toEqual(['data'])
    })

    it('what the caller had put there', async () => {
      const { before, sent, after } = await callWith(answers, {
        beforeRedirect: () => {},
        transport: { request: () => {} },
        fetchOptions: { redirect: 'follow' },
        env: { fetch: globalThis.fetch },
        data: FORM,
      } as CreateAxiosDefaults)
      for (const key of CHANGED) expect(after[key]).toBe(before[key])
      const changed = CHANGED.filter((key) => sent[key] !== before[key])
      // A caller's own adapter gets the form itself, as axios prepared it.
      expect(sent.headers.getContentType()).toBe(after.headers.getContentType())
      expect(sent.headers.getContentType()).toBe('application/x-www-form-urlencoded')
      expect(changed).toEqual(['beforeRedirect', 'transport', 'fetchOptions', 'env'])
      expect(sent.fetchOptions).toEqual({ redirect: 'manual' })
    })
  })
}

describe('what an adapter rejects with', () => {
  it.each([undefined, null, 'just text', 0, false])('is the caller’s: %j', async (reason) => {
    const { api, configs } = fakeApi([() => Promise.reject(reason)])
    expect(await rejectionOf(api.get('/1'))).toBe(reason)
    expect(configs.length).toBe(1)
  })

  it('is the caller’s, with nothing added, where it is not an error of axios', async () => {
    const reason = Object.assign(new Error('plain'), { response: { status: 401 } })
    const { api, configs } = fakeApi([() => Promise.reject(reason)])
    expect(await rejectionOf(api.get('/1'))).toBe(reason)
    expect(Object.keys(reason)).toEqual(['response'])
    expect(Object.keys(reason.response)).not.toContain('config')
    expect(configs.length).toBe(1)
  })

  it('has the one config of the call, whatever copy the adapter had made of it', async () => {
    const copied: FakeAnswer = (config) => {
      const copy = { ...config, transformRequest: [], adapter: 'http' }
      return Promise.reject({ config: copy, response: { status: 500, headers: {}, config: copy } })
    }
    const silent: FakeAnswer = (config) => Promise.reject({ config: { ...config, transformRequest: [] } })
    const { api, configs } = fakeApi([copied, silent])
    const failures = [await rejectionOf(api.get('/1')), await rejectionOf(api.get('/2'))]
    expect(failures.map((failure) => Object.keys(failure as object))).toEqual([
      ['config', 'response'],
      ['config'],
    ])
    const [failed, unanswered] = failures as { config: unknown; response: { config: unknown } }[]
    expect(failed?.config).toBe(configs[0])
    expect(failed?.response.config).toBe(configs[0])
    expect(unanswered?.config).toBe(configs[1])
  })

  it('is renewed where it holds a 401 as axios’ errors do', async () => {
    const { api, configs } = fakeApi([
      (config) => Promise.reject({ config, response: { status: 401, headers: {} } }),
    ])
    expect((await api.get('/1')).status).toBe(200)
    expect(configs.length).toBe(2)
  })
})

describe('an agent of the caller', () => {
  it.each(['', 'https://elsewhere.example/'])(
    'is not printed, though an interceptor copied the config: %j',
    async (url) => {
      const api = axios.create({
        baseURL: MERCHANT_URL,
        adapter: answering([]) as never,
        httpAgent: new Agent(),
      })
      api.interceptors.request.use((config) => ({ ...config }))
      attachAuth(api, rig().provider)
      const { config } = await api.get(url)
      expect(JSON.parse(JSON.stringify(config)).httpAgent).toBe('[Agent]')
      expect(inspect(config)).toContain("httpAgent: '[Agent]'")
      expect(config.httpAgent).toBeInstanceOf(Agent)
    },
  )
})

describe('the type of a form', () => {
  it.each(['http', 'fetch'] as const)(
    'stands on its config once, and is its own when that is sent again: %s',
    async (adapter) => {
      await using server = await scripted((_, response) => void response.end())
      const api = axios.create({ adapter, timeout: 5_000 })
      attachAuth(api, rig([], { environment: { ...ENVIRONMENT, apiUrls: [server.url] } }).provider)
      const id = api.interceptors.request.use((given) => {
        given.headers.delete('Content-Type')
        given.headers['content-type'] = 'multipart/form-data; boundary=of-the-caller-1'
        return given
      })
      const { config } = await api.post(`${server.url}/1`, FORM)
      api.interceptors.request.eject(id)
      const types = Object.keys(config.headers).filter((name) => name.toLowerCase() === 'content-type')
      expect(types.length).toBe(1)
      await api.request(config)
      await axios.create().request(config)
      for (const { headers: sent, body } of server.seen) {
        expect(sent['content-type']).toBe('multipart/form-data; boundary=of-the-caller-1')
        expect(String(body)).toMatch(/^--of-the-caller-1\r\n[\s\S]*\r\n--of-the-caller-1--\r\n$/)
      }
      expect(server.seen.length).toBe(3)
    },
  )
})

describe('the body', () => {
  it('is neither kept nor copied where no renewal is wanted', async () => {
    const body = Buffer.from('abc')
    let sent: unknown
    const keep: FakeAnswer = (config) => {
      sent = config.data
      return answering([])(config)
    }
    await fakeApi([keep], { attach: { renewOnStatus: [] } }).api.post('/1', body)
    expect(sent).toBe(body)
  })

  it('is copied where one may be, and the caller’s config still has his own', async () => {
    const body = Buffer.from('abc')
    let sent: unknown
    const { api } = fakeApi([
      (config) => {
        sent = config.data
        return answering([])(config)
      },
    ])
    const { config } = await api.post('/1', body)
    expect(sent).toEqual(body)
    expect(sent).not.toBe(body)
    expect(config.data).toBe(body)
  })
})
