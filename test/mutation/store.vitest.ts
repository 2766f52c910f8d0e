import { tests } from './tests.ts'

export default tests(
  'test/store/*.test.ts',
  'test/token/{encrypted-store,encryption,shared-*,store-failures}.test.ts',
)
