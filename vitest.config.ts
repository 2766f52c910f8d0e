import { globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { PATIENCE_MS } from './test/support/patience.ts'

/** How long (ms) a test may take: in memory, where it starts processes or servers or compiles, and in mode 'deep'. */
const IN_MEMORY_MS = 10_000
const WITH_PROCESSES_MS = 1.25 * PATIENCE_MS
const DEEP_MS = 3_600_000

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

const INSTALLED = ['test/{dist,types}/**/*.test.ts']
/** Tests that start processes or real servers, or that compile. */
const WITH_PROCESSES = [
  'test/{cli,file,redis,scenarios,testing}/**/*.test.ts',
  'test/base/node-version.test.ts',
  'test/readme.test.ts',
]
/** Test files that replace modules. All others share one copy of each module, which halves the time of the tests. */
const MOCKING = globSync('test/**/*.test.ts', {
  cwd: at('.'),
  exclude: ['test/{consumers,dist,types}/**', 'test/*/node_modules/**'],
})
  .map((name) => name.replaceAll('\\', '/'))
  .filter((name) => /\bvi\.(?:mock|doMock|resetModules)\(/.test(readFileSync(at(name), 'utf8')))

const OUTSIDE = [...configDefaults.exclude, ...INSTALLED, ...MOCKING, 'test/consumers/**']

/** Begins with the longest file and with what mostly waits for servers and processes: the other tests use the cores meanwhile. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) =>
      Number(/\/test\/(?:redis\/|file\/|scenarios\/own-401s\.)/.test(moduleId))
    return (await super.sort(files)).sort((a, b) => isLong(b) - isLong(a))
  }
}

// In mode 'deep' the races run for minutes rather than seconds; in mode 'timing' tests look at the time, too.
export default defineConfig(({ mode }) => {
  const withProcesses = { testTimeout: mode === 'deep' ? DEEP_MS : WITH_PROCESSES_MS }
  return {
    resolve: {
      alias: [
        { find: /^merchant-auth$/, replacement: at('./test/support/subject/index.ts') },
        { find: /^merchant-auth\/axios$/, replacement: at('./test/support/subject/axios.ts') },
        { find: /^merchant-auth\/redis$/, replacement: at('./src/store/redis.ts') },
        { find: /^merchant-auth\/file$/, replacement: at('./src/store/file/index.ts') },
        { find: /^merchant-auth\/undici$/, replacement: at('./src/attach/undici/index.ts') },
        { find: /^merchant-auth\/opentelemetry$/, replacement: at('./src/opentelemetry/index.ts') },
        { find: /^merchant-auth\/testing$/, replacement: at('./test/support/subject/testing.ts') },
      ],
    },
    test: {
      projects: [
        {
          extends: true,
          test: {
            name: 'tests',
            include: ['test/**/*.test.ts'],
            exclude: [...OUTSIDE, ...WITH_PROCESSES],
            isolate: false,
          },
        },
        {
          extends: true,
          test: {
            name: 'processes',
            include: WITH_PROCESSES,
            exclude: OUTSIDE,
            isolate: false,
            ...withProcesses,
          },
        },
        { extends: true, test: { name: 'mocking', include: MOCKING, ...withProcesses } },
        {
          extends: true,
          test: {
            name: 'installed',
            include: INSTALLED,
            globalSetup: 'test/dist/installed.ts',
            ...withProcesses,
          },
        },
        {
          extends: true,
          test: {
            name: 'examples',
            include: ['examples/existing-service/**/*.test.ts'],
            ...withProcesses,
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
      sequence: { sequencer: LongestFirst },
      setupFiles: ['test/support/setup.ts'],
      // Hundreds of tests do what they warn of.
      execArgv: ['MERCHANT_AUTH_PROVIDERS', 'MERCHANT_AUTH_WITHHELD'].map(
        (code) => `--disable-warning=${code}`,
      ),
      maxWorkers: availableParallelism() + 2, // more than cores: many tests wait for processes and servers
      testTimeout: IN_MEMORY_MS,
      hookTimeout: WITH_PROCESSES_MS, // servers and processes start and end in hooks
      provide: {
        schedules: mode === 'deep' ? 200_000 : 1_000,
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
  }
})
