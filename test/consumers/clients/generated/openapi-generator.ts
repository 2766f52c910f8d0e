/**
 * What openapi-generator generates needs Java and a JAR. This is a client that its generator typescript-axios 7.17.0
 * generated, as its vendor publishes it: the same runtime code, with other operations.
 */
import { Configuration, OAuth2Api, OidcApi } from '@ory/hydra-client'

export { Configuration, OAuth2Api as OrdersApi, OidcApi as AccountApi }
