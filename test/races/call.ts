/** What callers of a race wait for, and where their calls go. */

export const APIS = ['https://api.test.example/merchant', 'https://api.test.example/in-store']

/** One thing that a caller waits for. */
export interface Call {
  readonly name: string
  readonly controller: AbortController | undefined
  sends: number
  /** Whether an API has it: close() is not its business then. */
  sending: boolean
  settled: boolean
  /** How many token requests there must have been when everything has come to rest. */
  requestsDue: number
}
