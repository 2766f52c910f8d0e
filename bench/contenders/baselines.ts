/** A constant header, and the lines that people write by hand: they keep the token until it expires, and share nothing. */
import {
  axiosClient,
  axiosInstance,
  type Contender,
  constantHeader,
  fetchClient,
  fetchOf,
  headerClient,
  keptHeader,
  undiciClient,
} from './contender.ts'

export const axiosBaseline: Contender = {
  name: 'axios, default header',
  kind: 'baseline',
  client: 'axios',
  packages: ['axios'],
  async create(service, transport) {
    const instance = await axiosInstance(service, transport)
    instance.defaults.headers.common.Authorization = await constantHeader(service)
    return axiosClient(instance)
  },
}

export const fetchBaseline: Contender = {
  name: 'fetch, constant header',
  kind: 'baseline',
  client: 'fetch',
  packages: [],
  async create(service, transport) {
    const fetch = fetchOf(transport)
    const authorization = await constantHeader(service)
    return fetchClient(service, (url, init) =>
      fetch(url, init ? { ...init, headers: { authorization } } : { headers: { authorization } }),
    )
  },
}

export const undiciBaseline: Contender = {
  name: 'undici, constant header',
  kind: 'baseline',
  client: 'undici',
  packages: ['undici'],
  async create(service, transport) {
    const authorization = await constantHeader(service)
    return undiciClient(
      service,
      (dispatch) => (options, handler) =>
        dispatch({ ...options, headers: { ...options.headers, authorization } }, handler),
      transport,
    )
  },
}

export const handwrittenAxios: Contender = {
  name: 'handwritten interceptor',
  kind: 'handwritten',
  client: 'axios',
  packages: ['axios'],
  async create(service, transport) {
    const instance = await axiosInstance(service, transport)
    const header = keptHeader(service)
    instance.interceptors.request.use(async (config) => {
      config.headers.Authorization = await header()
      return config
    })
    return axiosClient(instance)
  },
}

export const handwrittenFetch: Contender = {
  name: 'handwritten fetch',
  kind: 'handwritten',
  client: 'fetch',
  packages: [],
  async create(service, transport) {
    return headerClient(service, fetchOf(transport), keptHeader(service))
  },
}
