/** What the tests of faults tell the reader of docs/faults.md: one cell of a table from each, once it has passed. */
import type { TestContext } from 'vitest'

/** One cell of a table in docs/faults.md. It says what the test measured and asserted, in a few words. */
export interface ToldCell {
  /** The table, by the name of its place in docs/faults.md. */
  readonly table: string
  /** What several rows have in common; its own line in the table. */
  readonly group?: string
  /** What goes wrong: the row. */
  readonly row: string
  /** The situation or the client: the column. */
  readonly column: string
  /** What came of it. The same words in every run. */
  readonly cell: string
}

declare module 'vitest' {
  interface TaskMeta {
    told?: ToldCell[]
  }
}

/** Tells a cell. It counts where the test passes. */
export function tell(task: TestContext['task'], cell: ToldCell): void {
  task.meta.told ??= []
  task.meta.told.push(cell)
}
