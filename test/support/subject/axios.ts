/** `merchant-auth/axios` as the tests import it: the real module, with all responses and errors noted. */
import type { AxiosInstance } from 'axios'
import { type AxiosLike, attachAuth as attachReal } from '../../../src/attach/axios/index.ts'
import { outcomes } from '../recorded.ts'

export * from '../../../src/attach/axios/index.ts'

export const attachAuth: typeof attachReal = (instance: AxiosLike, tokens, attach) => {
  let detach: () => void
  try {
    detach = attachReal(instance, tokens, attach)
  } catch (error) {
    outcomes.push(error)
    throw error
  }
  const { response } = (instance as unknown as AxiosInstance).interceptors
  const id = response.use(
    (answer) => {
      outcomes.push(answer)
      return answer
    },
    (error: unknown) => {
      outcomes.push(error)
      return Promise.reject(error)
    },
  )
  return () => {
    detach()
    response.eject(id)
  }
}
