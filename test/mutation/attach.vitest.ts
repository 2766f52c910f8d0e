import { tests } from './tests.ts'

export default tests('test/clients/**/*.test.ts', 'test/{events,options,warnings}.test.ts')
