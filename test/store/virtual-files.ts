/** A directory in memory in the place of `node:fs/promises`: each operation waits until it is chosen. */
import { basename, dirname } from 'node:path'

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
  /** The files, by path. */
  readonly files = new Map<string, File>()
  /** When the folders were changed (epoch ms), by path. */
  readonly folders = new Map<string, number>()
  /** The operations that wait, at most one for each process, but for several that it began at once. */
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

  #namesIn(folder: string): string[] {
    if (!this.folders.has(folder)) throw failure('ENOENT')
    const paths = [...this.files.keys(), ...this.folders.keys()].filter((path) => dirname(path) === folder)
    return paths.map((path) => basename(path))
  }

  /** A name in a folder was added or removed. */
  #touch(path: string): void {
    if (!this.folders.has(dirname(path))) throw failure('ENOENT')
    this.folders.set(dirname(path), Date.now())
  }

  #remove(path: string): File {
    const file = this.files.get(path) ?? fail('ENOENT')
    this.files.delete(path)
    this.#touch(path)
    return file
  }

  /** What the file store uses of `node:fs/promises`. */
  readonly api = {
    lstat: (path: string) =>
      this.#whenChosen(`look at ${shown(path)}`, () => ({
        mtimeMs: this.folders.get(path) ?? fail('ENOENT'),
        isDirectory: () => true,
      })),
    mkdir: (path: string) =>
      this.#whenChosen(`create ${shown(path)}`, () => {
        if (this.folders.has(path)) throw failure('EEXIST')
        this.#touch(path)
        this.folders.set(path, Date.now())
      }),
    rmdir: (path: string) =>
      this.#whenChosen(`remove ${shown(path)}`, () => {
        if (this.#namesIn(path).length > 0) throw failure('ENOTEMPTY')
        this.folders.delete(path)
        this.#touch(path)
      }),
    readdir: (path: string) => this.#whenChosen(`list ${shown(path)}`, () => this.#namesIn(path)),
    unlink: (path: string) => this.#whenChosen(`remove ${shown(path)}`, () => void this.#remove(path)),
    rename: (from: string, to: string) =>
      this.#whenChosen(`rename ${shown(from)}`, () => {
        this.files.set(to, this.#remove(from))
        this.#touch(to)
      }),
    open: async (path: string, flags: string | number) => {
      const file = await this.#whenChosen(`open ${shown(path)} ${flags}`, () => {
        const found = this.files.get(path)
        if (flags !== 'wx') return found ?? fail('ENOENT')
        if (found !== undefined) throw failure('EEXIST')
        this.#touch(path)
        const created = { text: '', mtimeMs: Date.now() }
        this.files.set(path, created)
        return created
      })
      return {
        // A reader opens a file, and the operations on it follow at once: what matters is whether it is there.
        stat: async () => ({ mtimeMs: file.mtimeMs, size: file.text.length, isFile: () => true }),
        readFile: async () => file.text,
        writeFile: (text: string) =>
          this.#whenChosen(`write ${shown(path)}`, () => {
            file.text = text + file.text.slice(text.length)
            this.#written.set(this.by, text)
          }),
        close: async () => {},
      }
    },
  }
}

/** A name as schedules show it: those of entries that are being written are random. */
function shown(path: string): string {
  return basename(path).replace(/^[0-9a-f]{58}|^\d+\.[0-9a-f-]{36}/, '…')
}

function failure(code: string): Error {
  return Object.assign(new Error(code), { code })
}

function fail(code: string): never {
  throw failure(code)
}

/** More than the code between two operations awaits. */
const TICKS = 40

export async function untilIdle(): Promise<void> {
  for (let tick = 0; tick < TICKS; tick += 1) await undefined
}
