// docs/decisions.md: its table of mechanisms names the files of src that are there, and its links lead to tests that are there.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { root } from '../scripts/packed.ts'

const FOLDERS = '{advice,base,environment,events,options,store,token,attach}'
const [, table = ''] = readFileSync(join(root, 'docs/decisions.md'), 'utf8').split('\n## Every mechanism')
const rows = table
  .split('\n')
  .filter((line) => /^\| \d/.test(line))
  .map((line) =>
    line.split(' | ').map((cell) => [...cell.matchAll(/`([\w./-]+)`/g)].map(([, name = '']) => name)),
  )

it('the table of mechanisms has at most 36 rows', () => {
  expect(rows.length).toBeGreaterThan(20)
  expect(rows.length).toBeLessThanOrEqual(36)
})

it('each file of the folders that hold the mechanisms is in the table, and each file of the table exists', () => {
  const files = globSync(`${FOLDERS}/**/*.ts`, { cwd: join(root, 'src') }).map((file) =>
    file.replaceAll('\\', '/'),
  )
  const named = rows.flatMap(([, , inSrc = []]) => inSrc)
  expect([...new Set(named)].sort()).toEqual(files.sort())
})

it('each test of the table exists', () => {
  const tests = rows.flat(2).filter((name) => name.startsWith('test/'))
  expect(tests.length).toBeGreaterThan(0)
  expect(tests.filter((name) => !existsSync(join(root, name)))).toEqual([])
})
