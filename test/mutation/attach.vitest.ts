import { tests } from './tests.ts'

export default tests('test/attach/**/*.test.ts', 'test/{events,options}/*.test.ts')
