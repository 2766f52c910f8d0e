/**
 * A client that openapi-generator's typescript-fetch 7.7.0 generated, as its vendor publishes it. The code in it that
 * sends requests is that of 7.17.0.
 */
import { Configuration, FetchError, OAuth2Api, OidcApi } from '@ory/hydra-client-fetch'

export { Configuration, FetchError, OAuth2Api as OrdersApi, OidcApi as AccountApi }
