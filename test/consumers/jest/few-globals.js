/** What jsdom's environment lacks, without the rest of jsdom: fetch comes from outside of it, as a test would pass it on. */
const { TestEnvironment } = require('jest-environment-node')

module.exports = class extends TestEnvironment {
  constructor(...args) {
    super(...args)
    for (const name of ['ReadableStream', 'TextDecoder', 'TextEncoder']) delete this.global[name]
  }
}
