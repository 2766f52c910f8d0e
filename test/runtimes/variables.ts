/** `optionsFromEnv` where only its variables may be read, and listing them is refused. Started by run.ts with Deno. */
import assert from 'node:assert/strict'
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'

console.log(`Deno ${process.versions['deno']}, with --allow-env=NAMES`)
assert.throws(() => Object.keys(process.env))
assert.throws(() => optionsFromEnv(), { code: 'ERR_CONFIGURATION' })
const sandbox = await startSandbox()
Object.assign(process.env, sandbox.test.variables)
const tokens = createTokenProvider(optionsFromEnv())
assert.ok((await tokens.getToken()).value)
await tokens.close()
await sandbox.close()
console.log('✓ the variables are read by their names')
console.log('done')
