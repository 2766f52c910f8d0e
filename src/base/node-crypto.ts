/** Node.js' cryptography, which only stores need. */

/** Loads it at its first use: as an import it would take some 4 ms of every program, with a store or without. */
export function nodeCrypto(): typeof import('node:crypto') {
  return process.getBuiltinModule('node:crypto')
}
