/** One token for processes that share a directory. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TokenStore } from 'merchant-auth'
import { createFileTokenStore } from 'merchant-auth/file'
import { afterEach, beforeEach } from 'vitest'
import type { Process as Member } from '../store/fleet.ts'
import { describeProviders, type SharedStore } from '../store/providers.ts'
import { rig, ScriptedEndpoint } from '../token/harness.ts'

class Directory implements SharedStore {
  endpoint = new ScriptedEndpoint([])
  #path = ''
  readonly #members: Member[] = []

  async begin(): Promise<void> {
    await this.end()
    this.endpoint = new ScriptedEndpoint([])
    this.#path = mkdtempSync(join(tmpdir(), 'file-providers-'))
  }

  async end(): Promise<void> {
    await Promise.all(this.#members.splice(0).map(({ provider }) => provider.close()))
    if (this.#path !== '') rmSync(this.#path, { recursive: true, force: true })
  }

  async store(): Promise<TokenStore> {
    return createFileTokenStore(this.#path)
  }

  start(store: TokenStore): Member {
    const { provider, events } = rig([], { clock: undefined, fetch: this.endpoint.fetch, store })
    this.#members.push({ provider, events })
    return { provider, events }
  }

  async startAll(count: number): Promise<Member[]> {
    return await Promise.all(Array.from({ length: count }, async () => this.start(await this.store())))
  }
}

const directory = new Directory()
beforeEach(() => directory.begin())
afterEach(() => directory.end())
describeProviders(directory)
