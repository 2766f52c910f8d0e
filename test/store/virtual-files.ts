/** A directory in memory in the place of `node:fs/promises`: each operation waits until it is chosen. */
import { basename } from 'node:path'

interface Operation {
  readonly by: string
  readonly what: string
  readonly perform: () => void
}

interface File {
  text: string
  mtimeMs: number
}

export class VirtualFiles {
  readonly files = new Map<string, File>()
  /** The operations that wait, at most one for each process. */
  readonly waiting: Operation[] = []
  /** The process that performs operations now. */
  by = ''
  readonly #written = new Map<string, string>()

  /** What a process wrote last. */
  writtenBy(by: string): string {
    return this.#written.get(by) ?? ''
  }

  /** Performs an operation of a process, whose code then runs up to its next one. */
  async perform(operation: Operation): Promise<void> {
    this.waiting.splice(this.waiting.indexOf(operation), 1)
    this.by = operation.by
    operation.perform()
    await untilIdle()
  }

  /** What a process does while it has a lease. */
  work(): Promise<void> {
    return this.#whenChosen('work', () => {})
  }

  #whenChosen<T>(what: string, act: () => T): Promise<T> {
    const { by } = this
    return new Promise((resolve, reject) => {
      const perform = (): void => {
        try {
          resolve(act())
        } catch (error) {
          reject(error)
        }
      }
      this.waiting.push({ by, what, perform })
    })
  }

  /** What the file store uses of `node:fs/promises`. */
  readonly api = {
    readdir: () => this.#whenChosen('list', () => [...this.files.keys()]),
    unlink: (path: string) =>
      this.#whenChosen(`remove ${basename(path)}`, () => {
        if (!this.files.delete(basename(path))) throw failure('ENOENT')
      }),
    open: async (path: string, flags: string | number) => {
      const name = basename(path)
      const file = await this.#whenChosen(`open ${name} ${flags}`, () => {
        const found = this.files.get(name)
        if (flags !== 'wx') return found ?? fail('ENOENT')
        if (found !== undefined) throw failure('EEXIST')
        const created = { text: '', mtimeMs: Date.now() }
        this.files.set(name, created)
        return created
      })
      return {
        // A reader opens a file, and the operations on it follow at once: what matters is whether it is there.
        stat: async () => ({ mtimeMs: file.mtimeMs }),
        readFile: async () => file.text,
        writeFile: (text: string) =>
          this.#whenChosen(`write ${name}`, () => {
            file.text = text + file.text.slice(text.length)
            this.#written.set(this.by, text)
          }),
        utimes: async (_: number, seconds: number) => {
          file.mtimeMs = seconds * 1_000
        },
        sync: async () => {},
        close: async () => {},
      }
    },
  }
}

function failure(code: string): Error {
  return Object.assign(new Error(code), { code })
}

function fail(code: string): never {
  throw failure(code)
}

/** More than the code between two operations awaits. */
const TICKS = 30

export async function untilIdle(): Promise<void> {
  for (let tick = 0; tick < TICKS; tick += 1) await undefined
}
