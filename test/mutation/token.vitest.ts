import { tests } from './tests.ts'

export default tests(
  'test/{clock,errors,events,options,redact,waiting,warnings}.test.ts',
  'test/token/*.test.ts',
  'test/races/*.test.ts',
  'test/cli/check-failures.test.ts',
)
