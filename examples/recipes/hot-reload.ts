/**
 * A development server loads a module again after each edit, in the same process: the instance, its token and its attachment stay.
 * Checks parts/merchant-api.ts, which docs/frameworks.md names.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startSandbox } from 'merchant-auth/testing'
import type * as MerchantApi from './parts/merchant-api.ts'

test('calls go on with the same token after the module was loaded again', async (t) => {
  const sandbox = await startSandbox()
  t.after(() => sandbox.close())
  Object.assign(process.env, sandbox.test.variables)
  for (const edit of [1, 2, 3]) {
    const { merchantApi }: typeof MerchantApi = await import(`./parts/merchant-api.ts?edit=${edit}`)
    assert.equal((await merchantApi().get('/orders')).status, 200)
  }
  assert.equal(sandbox.test.counts.token, 1)
})
