/** undici without an interceptor, and the interceptor that people write by hand. Only the price of a call has them: the other parts compare with an interceptor that sends a constant header. */
import { type Contender, constantHeader, keptHeader, undiciClient } from './contender.ts'

export const undiciWithoutInterceptor: Contender = {
  name: 'undici, header in the call',
  kind: 'baseline',
  client: 'undici',
  packages: ['undici'],
  async create(service, transport) {
    const { Agent, request } = await import('undici')
    const dispatcher = transport?.dispatcher ?? new Agent()
    const headers = { authorization: await constantHeader(service) }
    return {
      async call(path = '/orders') {
        const { statusCode, body } = await request(service.apiUrl + path, { dispatcher, headers })
        await body.dump()
        return statusCode
      },
      close: () => dispatcher.close(),
    }
  },
}

export const handwrittenUndici: Contender = {
  name: 'handwritten undici interceptor',
  kind: 'handwritten',
  client: 'undici',
  packages: ['undici'],
  async create(service, transport) {
    const header = keptHeader(service)
    return undiciClient(
      service,
      (dispatch) => (options, handler) => {
        header().then(
          (authorization) =>
            dispatch({ ...options, headers: { ...options.headers, authorization } }, handler),
          (error: Error) => handler.onResponseError?.(null as never, error),
        )
        return true
      },
      transport,
    )
  },
}
