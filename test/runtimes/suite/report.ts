/** What the suite reports to the script that started it. */

/** Its last line of output, as JSON. */
export interface Summary {
  /** Of the runtime. */
  readonly version: string
  readonly reports: readonly Report[]
}

/** What came of one check. */
export interface Report {
  readonly group: string
  readonly name: string
  readonly ms: number
  /** What this runtime does in its own way. */
  readonly differences: readonly string[]
  /** Whether what it is about does not exist in this runtime. */
  readonly absent?: boolean
  /** Why the check failed; undefined where it did not. */
  readonly problem?: string | undefined
}
