/** What these examples use of Cloudflare's module; in a Worker its types come from `wrangler types`. */
declare module 'cloudflare:workers' {
  import type { TokenEntries } from './token-store.ts'

  export const env: { readonly TOKENS: { getByName(name: string): TokenEntries } }
  export function waitUntil(promise: Promise<unknown>): void
  export class DurableObject {
    protected readonly ctx: {
      readonly storage: {
        get<T>(key: string): Promise<T | undefined>
        put<T>(key: string, value: T): Promise<void>
        delete(key: string): Promise<boolean>
      }
    }
  }
}
