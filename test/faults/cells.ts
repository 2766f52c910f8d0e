/** Records the cells of the tables in docs/faults.md, which count only if their test passes. */
import type { TestContext } from 'vitest'

export { counted } from '../clients/scenarios/scenario.ts'

/** One cell of a table in docs/faults.md: what the test measured and asserted, in a few words. */
export interface Cell {
  /** The name of the table's place in docs/faults.md. */
  readonly table: string
  /** The heading of several rows, on a line of its own in the table. */
  readonly group?: string
  /** What goes wrong. Rows of a group whose cells are all equal become one row. */
  readonly row: string
  /** The situation or the client. */
  readonly column: string
  /** The outcome, in the same words in every run. */
  readonly cell: string
}

declare module 'vitest' {
  interface TaskMeta {
    cells?: Cell[]
  }
}

export function record(task: TestContext['task'], cell: Cell): void {
  task.meta.cells ??= []
  task.meta.cells.push(cell)
}
