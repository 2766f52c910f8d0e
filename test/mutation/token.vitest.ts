import { tests } from './tests.ts'

export default tests(
  'test/{clock,errors,events,options,redact,waiting,warnings}.test.ts',
  'test/token/*.test.ts',
  'test/races/*.test.ts',
  'test/fleet/{fleet,rate-limit}.test.ts',
  'test/faults/token-endpoint-{answers,silence,statuses}.test.ts',
  'test/faults/echoes*.test.ts',
)
