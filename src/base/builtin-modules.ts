/** Modules of Node.js that are loaded at their first use: as imports they would take some 6 ms of each program that starts. */

/** Only stores need it. */
export function nodeCrypto(): typeof import('node:crypto') {
  return process.getBuiltinModule('node:crypto')
}

/** For `TextDecoder`, which is not a global in jsdom (https://github.com/jsdom/jsdom/issues/2524). */
export function nodeUtil(): typeof import('node:util') {
  return process.getBuiltinModule('node:util')
}
