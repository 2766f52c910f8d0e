/** What the handwritten interceptor grows into: it also requests a new token after a 401, and repeats the call. Only the matrix has it. */
import type { InternalAxiosRequestConfig } from 'axios'
import { axiosClient, axiosInstance, type Contender, requestTokenByAxios } from './contender.ts'

export const twentyLines: Contender = {
  name: 'twenty lines by hand',
  kind: 'handwritten',
  client: 'axios',
  packages: ['axios'],
  async create(service, transport) {
    const { isAxiosError } = await import('axios')
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
    api.interceptors.response.use(undefined, (error: unknown) => {
      const config: (InternalAxiosRequestConfig & { isRepeated?: true }) | undefined =
        isAxiosError(error) && error.response?.status === 401 ? error.config : undefined
      if (!config || config.isRepeated) throw error
      config.isRepeated = true
      expiresAt = 0
      return api.request(config)
    })
    return axiosClient(api)
  },
}
