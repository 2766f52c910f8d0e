/** `merchant-auth` as the tests import it: the real module, with all outcomes noted for the search for secrets. */
import {
  type AccessToken,
  createAuthFetch as createReal,
  createTokenProvider as createRealProvider,
  type TokenProvider,
  type TokenProviderOptions,
} from '../../../src/index.ts'
import { noted, noteSecret, outcomes } from '../recorded.ts'

export * from '../../../src/index.ts'

export function createTokenProvider(options: TokenProviderOptions): TokenProvider {
  const provider = attempt(() => createRealProvider(watchingSecrets(options)))
  outcomes.push(provider)
  const { currentToken, getToken, renewToken, close } = provider
  const watch = (token: AccessToken | undefined): AccessToken | undefined => {
    noteSecret(token?.value)
    return token
  }
  const own = {
    currentToken: () => watch(currentToken.call(provider)),
    getToken: (wait?: Parameters<typeof getToken>[0]) =>
      noted(getToken.call(provider, wait).then((token) => watch(token) as AccessToken)),
    renewToken: (rejected: AccessToken | string, wait?: Parameters<typeof renewToken>[1]) =>
      noted(renewToken.call(provider, rejected, wait).then(watch)),
    close: () => noted(close.call(provider)),
  }
  for (const [name, value] of Object.entries(own))
    Object.defineProperty(provider, name, { value, configurable: true })
  return provider
}

export const createAuthFetch: typeof createReal = (tokens, attach) => {
  const authFetch = attempt(() => createReal(tokens, attach))
  return (input, init) => noted(authFetch(input, init))
}

function watchingSecrets(options: TokenProviderOptions): TokenProviderOptions {
  const { clientSecret, clientAssertion } = options
  noteSecret(clientSecret)
  if (typeof clientAssertion === 'function') {
    const watched: typeof clientAssertion = async (endpoint) => {
      const assertion = await clientAssertion(endpoint)
      noteSecret(assertion)
      return assertion
    }
    return { ...options, clientAssertion: watched }
  }
  if (typeof clientSecret !== 'function') return options
  const watched = async (): Promise<string> => {
    const secret = await clientSecret()
    noteSecret(secret)
    return secret
  }
  return { ...options, clientSecret: watched }
}

function attempt<T>(make: () => T): T {
  try {
    return make()
  } catch (error) {
    outcomes.push(error)
    throw error
  }
}
