/** The floors: a token that is there from the start and never changes. Nothing that has to look for one can cost less. */
import type { Contender } from '../contender.ts'
import { axiosClient, axiosInstance, fetchClient, networkOf, undiciClient } from './clients.ts'
import { requestToken } from './token-request.ts'

export const axiosFloor: Contender = {
  name: 'axios, default header',
  kind: 'floor',
  client: 'axios',
  packages: ['axios'],
  async create(service, transport) {
    const instance = await axiosInstance(service, transport)
    instance.defaults.headers.common.Authorization = `Bearer ${(await requestToken(service)).access_token}`
    return axiosClient(instance)
  },
}

/** The same, with the header given when the instance is made: axios then has fewer headers to put together. */
export const axiosCreateFloor: Contender = {
  name: 'axios, header given to create()',
  kind: 'floor',
  client: 'axios',
  packages: ['axios'],
  async create(service, transport) {
    const instance = await axiosInstance(service, transport)
    instance.defaults.headers['Authorization'] = `Bearer ${(await requestToken(service)).access_token}`
    return axiosClient(instance)
  },
}

export const fetchFloor: Contender = {
  name: 'fetch, constant header',
  kind: 'floor',
  client: 'fetch',
  packages: [],
  async create(service, transport) {
    const fetch = networkOf(transport)
    const authorization = `Bearer ${(await requestToken(service)).access_token}`
    return fetchClient(service, (url, init) =>
      fetch(url, init ? { ...init, headers: { authorization } } : { headers: { authorization } }),
    )
  },
}

export const undiciFloor: Contender = {
  name: 'undici, constant header',
  kind: 'floor',
  client: 'undici',
  packages: ['undici'],
  async create(service, transport) {
    const authorization = `Bearer ${(await requestToken(service)).access_token}`
    return undiciClient(service, {
      transport,
      interceptor: (dispatch) => (options, handler) =>
        dispatch({ ...options, headers: { ...options.headers, authorization } }, handler),
    })
  },
}
