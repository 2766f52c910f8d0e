/** A token store in a folder, for one process that restarts. Shown in docs/shops-and-terminals.md. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TokenStore } from 'merchant-auth'

export function fileTokenStore(folder: string): TokenStore {
  return {
    async get(key) {
      try {
        const { value, endsAt } = JSON.parse(await readFile(join(folder, key), 'utf8'))
        return { value, ttlMs: endsAt - Date.now() }
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT' || error instanceof SyntaxError)
          return undefined
        throw error
      }
    },
    async set(key, value, ttlMs) {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const draft = join(folder, `${key}.${process.pid}`)
      const entry = JSON.stringify({ value, endsAt: Date.now() + ttlMs })
      await writeFile(draft, entry, { mode: 0o600, flush: true }) // before the rename, in case the power fails
      await rename(draft, join(folder, key))
    },
  }
}
