/** One attachment of a provider's token to one client: its checked options, and what its calls share. */
import { type Destinations, destinationsOf } from '../environment/destinations.ts'
import { type AttachOptions, type ResolvedAttach, resolveAttach } from '../options/options.ts'
import { type AttachedProvider, attachedProviderOf } from '../token/attached-provider.ts'
import type { TokenProvider } from '../token/provider.ts'
import type { AccessToken } from '../token/request/access-token.ts'
import type { Header } from './headers.ts'
import { noteHeader } from './sent-headers.ts'
import { WithheldCalls } from './withheld.ts'

/** One attachment of a provider's token to one client. */
export interface AttachContext extends ResolvedAttach {
  readonly tokens: TokenProvider
  readonly destinations: Destinations
  /** Whether the header is `Authorization`, which clients remove themselves on cross-origin redirects. */
  readonly isAuthorization: boolean
  /** The header that carries this token. */
  headerFor(token: AccessToken): Header
  /** The calls that go without the token. */
  readonly withheld: WithheldCalls
  /** Gets what the attachment reports. */
  readonly provider: AttachedProvider
}

/** Checks the options of an attachment; `takes` says which further options are allowed. */
export function createAttachContext(
  tokens: TokenProvider,
  options: AttachOptions | undefined,
  takes?: { readonly fetch: boolean },
): AttachContext {
  const attach = resolveAttach(tokens, options, takes)
  const destinations = destinationsOf(tokens.environment)
  const { header: name, headerKey: key, prefix } = attach
  // One string for all calls: clients check and hash each character of a new one.
  let last: { readonly token: string; readonly header: Header } | undefined
  return {
    ...attach,
    tokens,
    destinations,
    isAuthorization: key === 'authorization',
    withheld: new WithheldCalls(tokens, destinations, attach),
    provider: attachedProviderOf(tokens),
    headerFor: ({ value }) => {
      if (last?.token !== value) {
        last = { token: value, header: { name, key, value: prefix + value } }
        noteHeader(tokens, last.header.value)
      }
      return last.header
    },
  }
}
