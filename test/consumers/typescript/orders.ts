import { createAuthFetch, type TokenProvider } from 'merchant-auth'

/** The code under test. It gets its token provider from outside. */
export class Orders {
  private readonly fetch: typeof fetch
  private readonly url: string

  constructor(tokens: TokenProvider, merchantUrl: string) {
    this.fetch = createAuthFetch(tokens)
    this.url = `${merchantUrl}/orders`
  }

  async place(amount: number): Promise<void> {
    const headers = { 'content-type': 'application/json' }
    const response = await this.fetch(this.url, { method: 'POST', headers, body: JSON.stringify({ amount }) })
    if (!response.ok) throw new Error(`The API returned ${response.status}`)
  }
}
