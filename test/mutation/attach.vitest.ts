import { tests } from './tests.ts'

export default tests('test/clients/!(crowds).test.ts', 'test/warnings.test.ts')
