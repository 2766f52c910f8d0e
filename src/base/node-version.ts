/** A Node.js that is too old is told so, in place of the name of a function that it lacks. */

/** The message for a version of Node.js that is too old. */
export function requiresNode(version: string): string {
  return `requires Node.js 22.12 or later; this is ${version}`
}

/**
 * Throws where the package cannot run. It looks for a function that Node.js has since version 22: other runtimes report a
 * version of Node.js, too, which says little of what they have.
 */
export function refuseOldNode(): void {
  if (typeof Map.groupBy === 'function') return // libraries replace Promise, but not Map
  throw new Error(`merchant-auth ${requiresNode(globalThis.process?.versions?.node)}`)
}
