/** ts-jest with its default preset. */
import { startSandbox } from 'merchant-auth/testing'
import { callsBoth } from './main'

test('the package resolves to the CommonJS build and works', async () => {
  expect(require.resolve('merchant-auth')).toMatch(/index\.cjs$/)
  const sandbox = await startSandbox()
  expect(await callsBoth(sandbox)).toContain('token-renewed')
  await sandbox.close()
})
