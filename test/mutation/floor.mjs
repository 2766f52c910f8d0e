/** How one floor of the house is broken in every place, to see whether its own tests notice. */

/** The settings of Stryker for a floor: `src/{floor}` by the tests that `{floor}.vitest.ts` names. */
export function floor(name) {
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
    // TypeScript 7 has no API to read it by, and no test needs it.
    tsconfigFile: 'none',
  }
}
