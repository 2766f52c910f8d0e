/** A provider's options from environment variables. */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { ConfigurationError, CredentialFileError, type Flaw } from '../base/errors.ts'
import type { TokenProviderOptions } from './options.ts'
import { prepareStore, storeAt } from './store-location.ts'
import { decodeSecretFile, unreadableFile, withoutLineBreak } from './text-file.ts'
import {
  type CredentialSource,
  credentialSource,
  readVariables,
  STORE_VARIABLE,
  setVariables,
  VARIABLE_NAMES,
  type Variables,
} from './variables.ts'

/**
 * Options from environment variables. The type assumes that `MERCHANT_AUTH_API_URLS` names the two APIs `merchant` and
 * `inStore`. A name that it does not contain is undefined at run time; base URLs without names are read by index.
 */
export type OptionsFromEnv<Name extends string = 'merchant' | 'inStore'> = TokenProviderOptions & {
  /** The environment. */
  readonly environment: {
    /** The base URLs of the APIs, by name. */
    readonly apiUrls: Readonly<Record<Name, string>> & Readonly<Record<string, string>>
  }
}

/**
 * Reads the options of a provider from environment variables. An empty one counts as unset.
 *
 * - `MERCHANT_AUTH_URL`: `environment.authUrl`
 * - `MERCHANT_AUTH_TOKEN_PATH`: `environment.tokenPath`. With it, the audience may be unset
 * - `MERCHANT_AUTH_AUDIENCE`: `environment.audience`
 * - `MERCHANT_AUTH_API_URLS`: `environment.apiUrls`, separated by commas, white space or line breaks:
 *   `merchant=https://…,inStore=https://…`, or without names
 * - `MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS`: `environment.allowInsecureRequests`, `true` or `false`, for example for a sandbox in
 *   another container
 * - `MERCHANT_AUTH_CLIENT_ID`: `clientId`
 * - `MERCHANT_AUTH_CLIENT_SECRET`: `clientSecret`, without line breaks at its end. Many tools replace a `$` in a `.env` file: put
 *   such a secret into a file
 * - `MERCHANT_AUTH_CLIENT_SECRET_FILE`: instead, a file with the secret, such as a Docker or Kubernetes secret; line breaks at its
 *   end do not count. It must exist at startup, and is read before every token request, so that a new secret needs no restart
 * - `MERCHANT_AUTH_CLIENT_ASSERTION_FILE`: instead of a secret, a file that contains a signed JWT, read before every attempt
 * - `MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD`: `tokenEndpointAuthMethod`
 * - `MERCHANT_AUTH_BODY_FORMAT`: `bodyFormat`
 * - `MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS`: `lifetimeIfMissingMs`, in seconds
 * - `MERCHANT_AUTH_TOKEN_PARAMETERS`: `tokenParameters`, as `name=value`, separated by commas or line breaks. A value with a
 *   comma needs the option
 * - `MERCHANT_AUTH_TIMEOUT_MS`: `timeoutMs`
 * - `MERCHANT_AUTH_REFRESH_AHEAD_MS`: `refreshAheadMs`
 * - `MERCHANT_AUTH_EXPIRY_MARGIN_MS`: `expiryMarginMs`
 * - `MERCHANT_AUTH_STORE`: `store`, the path of a directory such as `/var/lib/my-service/tokens`; a relative one has a separator
 *   or begins with a dot. Or the URL of a Redis, its user name and password percent-encoded. A program also passes a client:
 *   `{ ...optionsFromEnv(), store: createRedisTokenStore(client) }`; `check` and `token` connect by themselves. With an assertion,
 *   pass `encryptionKeys`, too
 *
 * The inspect and JSON output of the result does not contain the secret.
 *
 * @param env the variables by name; by default those of the process
 * @param options `apis`: the names that `MERCHANT_AUTH_API_URLS` must contain, such as `['merchant']`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every problem, each with the variable's name
 * @example
 * const tokens = createTokenProvider({ ...optionsFromEnv(), onEvent: (event) => console.log(event.type) })
 */
export function optionsFromEnv<const Name extends string = 'merchant' | 'inStore'>(
  env: Readonly<Record<string, string | undefined>> = process.env,
  { apis = [] }: { readonly apis?: readonly Name[] | undefined } = {},
): OptionsFromEnv<Name> {
  const variables = setVariables(env)
  const source = credentialSource(variables)
  const readCredential = credentialReader(source, variables)
  const location = prepareStore(variables[STORE_VARIABLE])
  const flaws = { flaw: flawOf(source), storeFlaw: location?.flaw }
  const options = readVariables(variables, { readCredential, ...flaws, apis })
  if (!Array.isArray(options)) {
    const store = location?.kind && { store: storeAt(location) }
    return { ...options, ...store } as OptionsFromEnv<Name> // apiUrls has the names in `apis`
  }
  const isNoneSet = VARIABLE_NAMES.every((name) => variables[name] === undefined)
  const hint = isNoneSet
    ? ' (none is set: does the process read its .env file before this runs, as with node --env-file=.env, and does the tool that ' +
      'starts it pass variables on?)'
    : ''
  throw new ConfigurationError(`The environment variables cannot be used${hint}`, options)
}

function credentialReader(
  { variable, file }: CredentialSource,
  variables: Variables,
): () => string | Promise<string> {
  // A variable that was made from a file ends in a line break, as the file does.
  if (file === undefined) return () => withoutLineBreak(variables[variable] ?? '')
  return async () => {
    const { text, flaw } = await readFile(file).then(decodeSecretFile, (error) => unreadableFile(file, error))
    if (flaw !== undefined) throw new CredentialFileError(`${variable} ${flaw.reason}`)
    return text
  }
}

/** What is wrong with the file of the credential now. */
function flawOf({ file, flaw }: CredentialSource): Flaw | undefined {
  if (file === undefined) return flaw
  try {
    return decodeSecretFile(readFileSync(file)).flaw
  } catch (error) {
    return unreadableFile(file, error as NodeJS.ErrnoException).flaw
  }
}
