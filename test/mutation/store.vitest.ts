import { tests } from './tests.ts'

export default tests(
  'test/store/!(file-modes).test.ts', // replaces a module that the others share
  'test/token/{encrypted-store,encryption,shared-*,store-failures}.test.ts',
)
