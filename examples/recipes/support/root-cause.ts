/** What lies at the bottom of an error: fetch wraps the reason of a failure in other errors. */
export function rootCause(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? rootCause(error.cause) : error
}
