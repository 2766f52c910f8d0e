import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { configDefaults, defineConfig } from 'vitest/config'
import FaultReporter from './test/faults/reporter.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** How many schedules the races are tried in. */
    schedules: number
  }
}

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** Much of it waits, or runs in other processes: coverage would cost a third more, and tell nothing more. */
const WHOLE = ['cli', 'dist', 'faults', 'fleet', 'races', 'redis', 'types'].map(
  (name) => `test/${name}/**/*.test.ts`,
)

// `npm test` runs the mode 'units' with coverage, and then 'whole'. In mode 'deep' the races run for minutes rather than
// seconds.
export default defineConfig(({ mode }) => ({
  resolve: {
    alias: [
      { find: /^merchant-auth$/, replacement: at('./test/support/subject/index.ts') },
      { find: /^merchant-auth\/axios$/, replacement: at('./test/support/subject/axios.ts') },
      { find: /^merchant-auth\/redis$/, replacement: at('./src/store/redis.ts') },
      { find: /^merchant-auth\/undici$/, replacement: at('./src/attach/undici.ts') },
      { find: /^merchant-auth\/opentelemetry$/, replacement: at('./src/opentelemetry/index.ts') },
      { find: /^merchant-auth\/testing$/, replacement: at('./test/support/subject/testing.ts') },
    ],
  },
  test: {
    include: mode === 'whole' ? WHOLE : ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...(mode === 'units' ? WHOLE : [])],
    setupFiles: ['test/support/setup.ts'],
    maxWorkers: availableParallelism() + 1, // one more than cores: many tests wait for processes and servers
    testTimeout: 60_000,
    hookTimeout: 60_000, // the search for secrets after each test
    provide: { schedules: mode === 'deep' ? 200_000 : 5_000 },
    reporters: ['default', new FaultReporter()],
    coverage: {
      provider: 'v8',
      include: ['src/**'],
      reporter: ['text-summary', 'html'],
      thresholds: {
        'src/token/**': { lines: 95, branches: 95 },
        'src/attach/**': { lines: 95, branches: 95 },
      },
    },
  },
}))
