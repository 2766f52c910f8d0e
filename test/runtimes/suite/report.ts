/** The report of the suite to the script that started it. */

/** The last line of output, as JSON. */
export interface Summary {
  /** The version of the runtime. */
  readonly version: string
  readonly reports: readonly Report[]
}

/** The result of one check. */
export interface Report {
  readonly group: string
  readonly name: string
  readonly ms: number
  /** How this runtime differs. */
  readonly differences: readonly string[]
  /** Whether this runtime lacks what the check tests. */
  readonly absent?: boolean
  /** Why the check failed; undefined if it passed. */
  readonly problem?: string | undefined
}
