import { tests } from './tests.ts'

export default tests(
  'test/store/*.test.ts',
  'test/token/{rations-shared,shared-*}.test.ts',
  'test/fleet/*.test.ts',
)
