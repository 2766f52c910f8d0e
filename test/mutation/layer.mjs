/** Mutation testing of one layer of src: Stryker breaks it everywhere, to see whether the tests of that layer fail. */

/** The Stryker settings for a layer: it mutates `src/{name}` and runs the tests that `{name}.vitest.ts` lists. */
export function layer(name) {
  return {
    mutate: [`src/${name}/**/*.ts`],
    testRunner: 'vitest',
    vitest: { configFile: `test/mutation/${name}.vitest.ts`, related: false },
    plugins: ['@stryker-mutator/vitest-runner'],
    coverageAnalysis: 'perTest',
    timeoutMS: 5_000,
    timeoutFactor: 1.25,
    thresholds: { high: 95, low: 90, break: 90 },
    reporters: ['progress-append-only', 'clear-text', 'json', 'html'],
    clearTextReporter: { allowColor: false, reportTests: false },
    jsonReporter: { fileName: `coverage/mutation/${name}.json` },
    htmlReporter: { fileName: `coverage/mutation/${name}.html` },
    tempDirName: `.stryker-tmp/${name}`,
    // Stryker cannot read tsconfig.json, because TypeScript 7 has no API for that; no test needs it.
    tsconfigFile: 'none',
  }
}
