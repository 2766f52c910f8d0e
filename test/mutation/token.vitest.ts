import { tests } from './tests.ts'

export default tests(
  'test/{base,events,options}/*.test.ts',
  'test/token/*.test.ts',
  'test/races/*.test.ts',
  'test/cli/check-failures.test.ts',
)
