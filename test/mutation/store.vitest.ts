import { tests } from './tests.ts'

export default tests(
  'test/store/*.test.ts',
  'test/token/{rations-shared,shared-*}.test.ts',
  'test/fleet/{fleet,rate-limit}.test.ts',
)
