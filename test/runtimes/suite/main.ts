/** The whole suite: the same file in every runtime. */
import './entries.ts'
import './token.ts'
import './clients.ts'
import './errors.ts'
import './store.ts'
import './connections.ts'
import './sandbox.ts'
import './undici.ts' // last: loading undici may change Node's own fetch
import { runChecks } from './harness.ts'

await runChecks()
