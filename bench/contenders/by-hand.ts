/** What the handwritten interceptor grows into: it also requests a new token after a 401, and repeats the call. Only the matrix has them. */
import type { AxiosInstance, InternalAxiosRequestConfig } from 'axios'
import { axiosClient, axiosInstance, type Contender, requestTokenByAxios } from './contender.ts'

export const twentyLines: Contender = {
  name: 'twenty lines by hand',
  kind: 'handwritten',
  client: 'axios',
  packages: ['axios'],
  async create(service, transport) {
    const api = await axiosInstance(service, transport)
    let token = ''
    let expiresAt = 0
    api.interceptors.request.use(async (config) => {
      if (Date.now() >= expiresAt) {
        const answer = await requestTokenByAxios(service)
        token = answer.access_token
        expiresAt = Date.now() + answer.expires_in * 1_000
      }
      config.headers.set('Authorization', `Bearer ${token}`)
      return config
    })
    await repeatAfter401(api, () => {
      expiresAt = 0
    })
    return axiosClient(api)
  },
}

export const thirtyLines: Contender = {
  name: 'thirty lines by hand',
  kind: 'handwritten',
  client: 'axios',
  packages: ['axios'],
  note: 'concurrent calls share one token request, and a 401 forgets only the token that the call carried',
  async create(service, transport) {
    const api = await axiosInstance(service, transport)
    let token = ''
    let expiresAt = 0
    let pending: Promise<string> | undefined
    async function requestToken(): Promise<string> {
      try {
        const answer = await requestTokenByAxios(service)
        token = answer.access_token
        expiresAt = Date.now() + answer.expires_in * 1_000
        return token
      } finally {
        pending = undefined
      }
    }
    api.interceptors.request.use(async (config) => {
      if (Date.now() >= expiresAt) pending ??= requestToken()
      config.headers.set('Authorization', `Bearer ${pending ? await pending : token}`)
      return config
    })
    await repeatAfter401(api, ({ headers }) => {
      if (headers.get('Authorization') === `Bearer ${token}`) expiresAt = 0
    })
    return axiosClient(api)
  },
}

async function repeatAfter401(
  api: AxiosInstance,
  forget: (rejected: InternalAxiosRequestConfig) => void,
): Promise<void> {
  const { isAxiosError } = await import('axios')
  api.interceptors.response.use(undefined, (error: unknown) => {
    const config: (InternalAxiosRequestConfig & { isRepeated?: true }) | undefined =
      isAxiosError(error) && error.response?.status === 401 ? error.config : undefined
    if (!config || config.isRepeated) throw error
    config.isRepeated = true
    forget(config)
    return api.request(config)
  })
}
