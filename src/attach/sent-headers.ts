/** The headers that the attachments of a provider set last: a call may pass two of them, such as one on fetch, and one below it. */
import type { TokenProvider } from '../token/provider.ts'

/** Around a renewal, calls with both tokens are under way. */
const MOST = 4
const headersOf = new WeakMap<TokenProvider, readonly string[]>()

/** An attachment sets a header of this value from now on. */
export function noteHeader(tokens: TokenProvider, value: string): void {
  const others = (headersOf.get(tokens) ?? []).filter((other) => other !== value)
  headersOf.set(tokens, [value, ...others].slice(0, MOST))
}

/** Whether a header is one that an attachment of the provider set. */
export function isOfAttachment(tokens: TokenProvider, value: unknown): boolean {
  return typeof value === 'string' && (headersOf.get(tokens)?.includes(value) ?? false)
}
