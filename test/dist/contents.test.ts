/** What is in the tarball: what its users need, all of that, and nothing else. */
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { bundledProblems } from '../../scripts/check-package/bundled.ts'
import { contentProblems, linkProblems } from '../../scripts/check-package/contents.ts'
import { attwProblems, publintProblems } from '../../scripts/check-package/linters.ts'
import { type Installed, installed } from './installed.ts'

let made: Installed
let unpacked = ''
beforeAll(async () => {
  made = await installed()
  unpacked = join(made.alone, 'node_modules/merchant-auth')
}, 180_000)

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
  await expect(publintProblems(made.tarball)).resolves.toEqual([])
})

it('has types that attw finds no fault with', async () => {
  await expect(attwProblems(made.tarball)).resolves.toEqual([])
})
