/** What is in the tarball: what its users need, all of that, and nothing else. */
import { join } from 'node:path'
import { expect, inject, it } from 'vitest'
import { bundledProblems } from '../../scripts/check-package/bundled.ts'
import { contentProblems, linkProblems } from '../../scripts/check-package/contents.ts'
import { attwProblems, publintProblems } from '../../scripts/check-package/linters.ts'

const { tarball, alone } = inject('installed')
const unpacked = join(alone, 'node_modules/merchant-auth')

it('holds every file that can be reached from exports, with its declarations, and no other', () => {
  expect(contentProblems(unpacked)).toEqual([])
})

it('has pages without a link that leads nowhere', () => {
  expect(linkProblems(unpacked)).toEqual([])
})

it('names the packages whose code is in it: in the SBOM, inlinedDependencies and the licenses', () => {
  expect(bundledProblems(unpacked)).toEqual([])
})

it('has nothing that publint, in strict mode, suggests to change', async () => {
  await expect(publintProblems(tarball)).resolves.toEqual([])
})

it('has types that attw finds no fault with', async () => {
  await expect(attwProblems(tarball)).resolves.toEqual([])
})
