/** What each part of the benchmark yields, and how a part hands it to the runner. */
import type { Contender } from './contender.ts'

/** A promise about a figure. */
export interface Mark {
  readonly name: string
  readonly value: number
  readonly limit: number
  /** Multiplicative room for noise: a value up to `limit * room` is no miss. */
  readonly room: number
  /** Why it may miss without failing the run. It is printed beside the figure. */
  readonly mayMiss?: string
}

export interface Chart {
  /** File name below `bench/charts/`, with `.svg`. */
  readonly file: string
  readonly title: string
  readonly unit: string
  readonly kind: 'bars' | 'lines'
  readonly scale?: 'linear' | 'log'
  readonly series: readonly {
    readonly name: string
    readonly kind: Contender['kind']
    readonly values: readonly { readonly x: string | number; readonly y: number }[]
  }[]
}

export interface Section {
  readonly title: string
  readonly intro: string
  readonly columns: readonly string[]
  readonly rows: readonly (readonly (string | number)[])[]
  readonly notes?: readonly string[]
  readonly marks: readonly Mark[]
  readonly charts?: readonly Chart[]
  /** Its figures in a few lines, for the README of the package. */
  readonly summary?: Pick<Section, 'columns' | 'rows'>
}

/** A short run that judges the marks only: `npm run bench -- --check`. */
export const isCheck = process.env['BENCH_CHECK'] === '1'

/**
 * Prints what the part yields as JSON on stdout, if the module of that `import.meta` is the one that Node.js was
 * started with. A part ends with it, so that the runner starts each in a process of its own. Progress goes to stderr.
 */
export async function runAlone(
  meta: ImportMeta,
  part: () => Promise<Section | readonly Section[]>,
): Promise<void> {
  if (meta.main) process.stdout.write(`${JSON.stringify(await part())}\n`)
}
