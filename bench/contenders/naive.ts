/** The ten lines that people write by hand: an async interceptor that keeps the token until it expires, and shares nothing. */
import type { Contender, Service } from '../contender.ts'
import { axiosClient, axiosInstance, headerClient, networkOf } from './clients.ts'
import { requestToken } from './token-request.ts'

function handwritten(service: Service): () => Promise<string> {
  let token = ''
  let expiresAt = 0
  return async () => {
    if (Date.now() >= expiresAt) {
      const answer = await requestToken(service)
      token = answer.access_token
      expiresAt = Date.now() + answer.expires_in * 1_000
    }
    return token
  }
}

export const naiveAxios: Contender = {
  name: 'handwritten interceptor',
  kind: 'naive',
  client: 'axios',
  packages: ['axios'],
  async create(service, transport) {
    const instance = await axiosInstance(service, transport)
    const getToken = handwritten(service)
    instance.interceptors.request.use(async (config) => {
      config.headers.set('Authorization', `Bearer ${await getToken()}`)
      return config
    })
    return axiosClient(instance)
  },
}

export const naiveFetch: Contender = {
  name: 'handwritten fetch',
  kind: 'naive',
  client: 'fetch',
  packages: [],
  async create(service, transport) {
    const getToken = handwritten(service)
    return headerClient(service, {
      fetch: networkOf(transport),
      header: async () => `Bearer ${await getToken()}`,
    })
  },
}
