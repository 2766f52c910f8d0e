import { tests } from './tests.ts'

export default tests(
  'test/attach/*.test.ts',
  'test/faults/api-{challenges,secrets*}.test.ts',
  'test/faults/bodies-{changed,odd}.test.ts',
  'test/faults/destinations-odd.test.ts',
  'test/faults/signals-{left,reasons}.test.ts',
)
