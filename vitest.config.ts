import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { configDefaults, defineConfig } from 'vitest/config'
import type { VitestPluginContext } from 'vitest/node'
import { PATIENCE_MS } from './test/support/patience.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** How many schedules the races are tried in. */
    schedules: number
    /** Whether worlds are explored with larger bounds. */
    deep: boolean
    /** Whether milliseconds count: on a quiet machine alone. */
    quiet: boolean
  }
}

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** Much of it waits, or runs in other processes: coverage would cost a third more, and tell nothing more. */
const WHOLE = ['cli', 'exploration', 'file', 'races', 'redis'].map((name) => `test/${name}/**/*.test.ts`)
const INSTALLED = ['test/{dist,types}/**/*.test.ts']

/** What takes coverage takes it of all projects, so that this one has to be told. */
const withoutCoverage = {
  name: 'without-coverage',
  configureVitest: ({ project }: VitestPluginContext) => {
    project.config.coverage = { ...project.config.coverage, enabled: false }
  },
}

// In mode 'deep' the races run for minutes rather than seconds; in mode 'timing' tests look at the time, too.
export default defineConfig(({ mode }) => ({
  resolve: {
    alias: [
      { find: /^merchant-auth$/, replacement: at('./test/support/subject/index.ts') },
      { find: /^merchant-auth\/axios$/, replacement: at('./test/support/subject/axios.ts') },
      { find: /^merchant-auth\/redis$/, replacement: at('./src/store/redis.ts') },
      { find: /^merchant-auth\/file$/, replacement: at('./src/store/file.ts') },
      { find: /^merchant-auth\/undici$/, replacement: at('./src/attach/undici.ts') },
      { find: /^merchant-auth\/opentelemetry$/, replacement: at('./src/opentelemetry/index.ts') },
      { find: /^merchant-auth\/testing$/, replacement: at('./test/support/subject/testing.ts') },
    ],
  },
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: 'units',
          include: ['test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...WHOLE, ...INSTALLED, 'test/consumers/**'],
        },
      },
      { extends: true, plugins: [withoutCoverage], test: { name: 'whole', include: WHOLE } },
      {
        extends: true,
        plugins: [withoutCoverage],
        test: { name: 'installed', include: INSTALLED, globalSetup: 'test/dist/installed.ts' },
      },
      {
        extends: true,
        plugins: [withoutCoverage],
        test: {
          name: 'examples',
          include: ['examples/existing-service/**/*.test.ts'],
          env: {
            AUTH_URL: 'https://auth.test.example.com',
            AUDIENCE: 'https://api.test.example.com',
            API_URL: 'https://api.test.example.com/merchant',
            CLIENT_ID: 'my-client',
            CLIENT_SECRET: 'made-up-secret',
          },
        },
      },
    ],
    setupFiles: ['test/support/setup.ts'],
    // Hundreds of tests do what they warn of.
    execArgv: ['MERCHANT_AUTH_PROVIDERS', 'MERCHANT_AUTH_WITHHELD'].map(
      (code) => `--disable-warning=${code}`,
    ),
    maxWorkers: availableParallelism() + 1, // one more than cores: many tests wait for processes and servers
    testTimeout: 2 * PATIENCE_MS,
    hookTimeout: 2 * PATIENCE_MS, // the search for secrets after each test
    provide: {
      schedules: mode === 'deep' ? 200_000 : 5_000,
      deep: mode === 'deep',
      quiet: mode === 'timing',
    },
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
