import { tests } from './tests.ts'

export default tests(
  'test/store/*.test.ts',
  'test/token/{client-secret,encryption,rate-limit,shared-*,store-failures}.test.ts',
)
