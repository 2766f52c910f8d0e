/** The client secret is replaced three times while calls go on, without a restart: none of them fails. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import axios from 'axios'
import { type AuthEvent, createAuthFetch, createTokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'

/** Where the secret is kept; reading takes a while. */
class Vault {
  secret: string

  constructor(secret: string) {
    this.secret = secret
  }

  readonly read = async (): Promise<string> => {
    const { secret } = this
    await sleep(20)
    return secret
  }
}

/** Calls by axios and by fetch, one after the other, and what became of them. */
class Service {
  readonly vault: Vault
  calls = 0
  failed = 0
  /** After how long (ms) another attempt followed each token request that failed; undefined where none did. */
  readonly nextTries: (number | undefined)[] = []
  #firstFailure: unknown
  #ended = false
  readonly #sandbox: SandboxEnvironment
  readonly #loops: readonly Promise<void>[]
  readonly #awaited: { readonly type: AuthEvent['type']; readonly happened: () => void }[] = []

  constructor(sandbox: SandboxEnvironment, lifetimeSeconds: number) {
    sandbox.configure({ lifetimeSeconds, tokenLatencyMs: 50 })
    this.#sandbox = sandbox
    const { environment, clientId, clientSecret, merchantUrl, inStoreUrl } = sandbox
    this.vault = new Vault(clientSecret)
    const tokens = createTokenProvider({
      environment,
      clientId,
      clientSecret: this.vault.read,
      refreshAheadMs: 60_000, // at most half of a token's life
      onEvent: (event) => this.#tell(event),
    })
    const api = axios.create({ baseURL: merchantUrl })
    attachAuth(api, tokens)
    const authFetch = createAuthFetch(tokens)
    this.#loops = [
      this.#load(async () => (await api.post('/orders', { amount: 1200 })).status),
      this.#load(async () => {
        const response = await authFetch(`${inStoreUrl}/sales`)
        await response.text()
        return response.status
      }),
    ]
  }

  /** Token requests, and how many of them were rejected. */
  get requests(): { readonly sent: number; readonly rejected: number } {
    const sent = this.#sandbox.requests('token')
    return { sent: sent.length, rejected: sent.filter(({ status }) => status === 401).length }
  }

  /** Resolves at the next event of a type. */
  next(type: AuthEvent['type']): Promise<void> {
    return new Promise((resolve) => this.on(type, resolve))
  }

  /** Does something at once at the next event of a type. */
  on(type: AuthEvent['type'], happened: () => void): void {
    this.#awaited.push({ type, happened })
  }

  async end(): Promise<void> {
    this.#ended = true
    await Promise.all(this.#loops)
    assert.equal(this.failed, 0, `The first of the failed calls: ${inspect(this.#firstFailure)}`)
  }

  #tell(event: AuthEvent): void {
    if (event.type === 'token-request-failed') this.nextTries.push(event.nextTryMs)
    const index = this.#awaited.findIndex(({ type }) => type === event.type)
    if (index >= 0) this.#awaited.splice(index, 1)[0]?.happened()
  }

  async #load(call: () => Promise<number>): Promise<void> {
    while (!this.#ended) {
      const outcome = await call().catch((error: unknown) => error)
      if (outcome !== 200) {
        this.failed += 1
        this.#firstFailure ??= outcome
      }
      this.calls += 1
      await sleep(5)
    }
  }
}

/** The two usual ways, with tokens that live for two seconds. */
async function rotateTwice(sandbox: SandboxEnvironment): Promise<string> {
  const startedAt = performance.now()
  const service = new Service(sandbox, 2)
  await service.next('token-renewed')

  // In order: the token endpoint takes both, the vault gets the new one, it is used, the old one is revoked.
  sandbox.acceptSecrets(service.vault.secret, 'second secret')
  service.vault.secret = 'second secret'
  await service.next('token-renewed')
  sandbox.acceptSecrets('second secret')
  await service.next('token-renewed')
  assert.equal(service.requests.rejected, 0)

  // In a hurry: revoked while a token request with the old one is in flight.
  service.on('token-requested', () => {
    service.vault.secret = 'third secret'
    sandbox.acceptSecrets('third secret')
  })
  await service.next('token-renewed')
  await service.next('token-renewed')
  await service.end()
  const { sent, rejected } = service.requests
  assert.equal(rejected, 1)
  assert.deepEqual(service.nextTries, [0])
  // A token of 2 s is renewed at the earliest a second before the last 100 ms of its life.
  assert.ok(sent <= 2 + Math.ceil((performance.now() - startedAt) / 900), `${sent} token requests`)
  return (
    'Both secrets accepted for a while: no token request was rejected.\n' +
    `The old one revoked during a token request: ${rejected} rejected, and repeated with the new one.\n` +
    `  ${service.calls} calls, ${service.failed} failed; ${sent} token requests`
  )
}

/** The vault is late: the old secret is revoked, and the vault still has it when the next renewal comes. */
async function rotateLate(sandbox: SandboxEnvironment): Promise<string> {
  const service = new Service(sandbox, 3)
  await service.next('token-acquired')
  sandbox.acceptSecrets('second secret')
  await service.next('token-request-failed')
  await sleep(300)
  service.vault.secret = 'second secret'
  await service.next('token-acquired')
  await service.end()
  assert.deepEqual(service.requests, { sent: 3, rejected: 1 })
  assert.deepEqual(service.nextTries, [undefined])
  return (
    'Revoked, and the vault 300 ms late: the current token was used until the next renewal.\n' +
    `  ${service.calls} calls, ${service.failed} failed; 3 token requests, 1 of them rejected`
  )
}

setTimeout(() => {
  throw new Error('An event did not come') // nothing below waits for ever
}, 100_000).unref()

await using sandbox = await startSandbox()
const reports = await Promise.all([rotateTwice(sandbox.test), rotateLate(sandbox.production)])
console.log(reports.join('\n'))
