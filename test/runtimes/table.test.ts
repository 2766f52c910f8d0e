/** The compatibility table: its cells, its place in a document, and when it is out of date. */
import { describe, expect, it } from 'vitest'
import type { Report } from './suite/report.ts'
import { saysTheSame, tableIn, tableOf, withTable } from './table.ts'

const report = (group: string, more: Partial<Report> = {}): Report => ({
  group,
  name: 'a check',
  ms: 1,
  differences: [],
  ...more,
})

const table = tableOf([
  {
    title: 'Node.js 22.12.0',
    ms: 1,
    reports: [report('Token'), report('undici', { absent: true, differences: ['It needs 22.19.'] })],
  },
  {
    title: 'Deno 2.9.6',
    ms: 1,
    reports: [
      report('Token', { differences: ['It does so twice.'] }),
      report('Token', { differences: ['It needs 22.19.', 'It does so twice.'] }),
      report('undici', { problem: 'wrong' }),
      report('undici'),
    ],
  },
])

describe('the compatibility table', () => {
  it('has a column per runtime, a row per group, and each difference once, below the table', () => {
    expect(table).toBe(
      `|  | Node.js 22.12.0 | Deno 2.9.6 |
|---|:---:|:---:|
| Token | ✓ | ✓¹ ² |
| undici | –² | ✗ |

¹ It does so twice.

² It needs 22.19.`,
    )
  })

  it('is written to its place in a document and read from it', () => {
    const document = 'Before\n<!-- runtimes -->\nold\n<!-- /runtimes -->\nAfter'
    const written = withTable(document, table)
    expect(written).toBe(`Before\n<!-- runtimes -->\n\n${table}\n\n<!-- /runtimes -->\nAfter`)
    expect(tableIn(written)).toBe(table)
    expect(withTable(written, table)).toBe(written)
    expect(tableIn('no place')).toBeUndefined()
    expect(withTable('no place', table)).toBe('no place')
  })

  it('is out of date after every change except of a patch version', () => {
    expect(saysTheSame(table, table.replace('22.12.0', '22.12.7').replace('2.9.6', '2.9.60'))).toBe(true)
    for (const [from, to] of [
      ['22.12.0', '22.13.0'],
      ['✗', '✓'],
      ['twice', 'once'],
      ['| Token | ✓ |', '| Token | – |'],
    ] as const) {
      expect(saysTheSame(table, table.replace(from, to))).toBe(false)
    }
  })
})
