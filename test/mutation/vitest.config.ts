/** The tests that mutants are tried on: quick, and by themselves. No process is started and no package is built. */
import { mergeConfig } from 'vitest/config'
import base from '../../vitest.config.ts'

export default mergeConfig(base({ mode: 'test', command: 'serve' }), {
  test: {
    provide: { schedules: 250 },
    testTimeout: 5_000, // a mutant that hangs is caught
    hookTimeout: 5_000,
    exclude: [
      'test/dist/**',
      'test/types/**',
      'test/testing/**',
      'test/scenarios/**',
      'test/readme.test.ts',
      // Thousands of calls, or hundreds over sockets.
      'test/faults/api-calls-*',
      'test/faults/api-faults*',
      'test/faults/api-hour*',
      'test/faults/base-urls*',
      'test/faults/bodies-large*',
      'test/faults/destinations-sockets*',
      'test/faults/redirects-followed*',
      'test/faults/signals-many-*',
      'test/faults/token-endpoint-outage*',
      'test/faults/token-endpoint-sockets*',
    ],
  },
})
