import { expect, it } from 'vitest'
import * as original from '../../src/token/attached-provider.ts'
import { rig } from './harness.ts'

it('a provider of one copy of the package is known to attachments of another copy, as loaders may make two', async () => {
  const copy = '../../src/token/attached-provider.ts?copy'
  const { attachedProviderOf } = (await import(copy)) as typeof import('../../src/token/attached-provider.ts')
  expect(attachedProviderOf).not.toBe(original.attachedProviderOf)
  const { provider } = rig()
  expect(attachedProviderOf(provider)).toBe(original.attachedProviderOf(provider))
})
