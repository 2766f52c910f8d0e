/** The Vitest settings for mutation testing: fast tests only, and fewer schedules for the races. */
import { mergeConfig, type ViteUserConfig } from 'vitest/config'
import base from '../../vitest.config.ts'

/** Returns the Vitest settings for the given test files. */
export function tests(...include: string[]): ViteUserConfig {
  const config = mergeConfig(base({ mode: 'test', command: 'serve' }), {
    test: {
      provide: { schedules: 250 },
      isolate: false, // a mutant takes a third of the time
      testTimeout: 20_000, // a mutant that hangs is caught
      hookTimeout: 20_000,
    },
  })
  const { projects: _, ...test } = { ...config['test'] }
  return { ...config, test: { ...test, include } }
}
