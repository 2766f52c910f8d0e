/** The tests that mutants are tried on: quick, and by themselves. No process is started and no package is built. */
import { mergeConfig } from 'vitest/config'
import base from '../../vitest.config.ts'

export default mergeConfig(base({ mode: 'test', command: 'serve' }), {
  test: {
    provide: { schedules: 200 },
    exclude: [
      'test/dist/**',
      'test/types/**',
      'test/testing/**',
      'test/readme.test.ts',
      'test/scenarios/process-life.test.ts',
      'test/scenarios/steady-load.test.ts',
    ],
  },
})
