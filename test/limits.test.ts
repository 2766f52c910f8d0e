// test/limits.ts: it has every limit of src/token and src/attach, tests that are there, and the values of docs/behavior.md.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { root } from '../scripts/packed.ts'
import { constantsIn, LIMITS } from './limits.ts'

/** The sizes of an algorithm, which are no choice of this package. */
const GIVEN = ['KEY_BYTES', 'IV_BYTES', 'TAG_BYTES']

const behavior = readFileSync(join(root, 'docs/behavior.md'), 'utf8').replaceAll(/\s+/g, ' ')

const UNITS: readonly [string, number][] = [
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
]
const SHARES: Readonly<Record<number, string>> = { 0.2: 'a fifth', 0.25: 'a quarter' }

/** A value as pages write it. */
function written(name: string, value: number): string {
  if (name.endsWith('_BYTES')) return `${value / 2 ** 20} MiB`
  if (!name.endsWith('_MS')) return SHARES[value] ?? String(value)
  const [unit, ms] = UNITS.find(([, ms]) => value >= ms) ?? ['ms', 1]
  return `${value / ms} ${unit}`
}

it('each constant of src/token and src/attach that is a number is in the table, and each of the table exists', () => {
  const files = globSync('{token,attach}/**/*.ts', { cwd: join(root, 'src') })
  const others = LIMITS.map(({ file }) => file).filter((file) => !/^(?:token|attach)\//.test(file))
  const found = files.flatMap((file) =>
    [...constantsIn(file).keys()]
      .filter((name) => !GIVEN.includes(name))
      .map((name) => `${file.replaceAll('\\', '/')} ${name}`),
  )
  const named = LIMITS.map(({ file, name }) => `${file} ${name}`)
  const inOthers = LIMITS.filter(({ file, name }) => others.includes(file) && constantsIn(file).has(name))
  expect([...found, ...inOthers.map(({ file, name }) => `${file} ${name}`)].sort()).toEqual(named.sort())
})

it('each test of the table exists', () => {
  expect(LIMITS.filter(({ test }) => !existsSync(join(root, 'test', test)))).toEqual([])
})

it.each(LIMITS.filter(({ phrases }) => phrases.length > 0))(
  'docs/behavior.md says what $name is: $meaning',
  ({ name, file, phrases }) => {
    const value = written(name, Number(constantsIn(file).get(name)))
    const missing = phrases
      .map((phrase) => phrase.replace('#', value))
      .filter((text) => !behavior.includes(text))
    expect(missing).toEqual([])
  },
)
