/** The tables of the manual that the code owns: what `<!-- table: NAME -->` in a page stands for. */
import { adviceOf, type Failure, OPTIONS } from '../src/advice/failure.ts'
import { NETWORK_FAILURES } from '../src/advice/network.ts'
import { REFUSALS } from '../src/advice/refusals.ts'
import { STORE_FAILURES } from '../src/advice/store.ts'

/** In a page, an option is code, and a section of the manual is a link. */
const PAGE = Object.fromEntries(
  Object.entries(OPTIONS).map(([name, words]) => [
    name,
    words.replace(/merchant-auth\/docs\/([\w-]+\.md(?:#[\w-]+)?)/g, (_, link: string) => `[more](${link})`),
  ]),
)

/** The tables, by their names. */
export const TABLES: Readonly<Record<string, () => string>> = {
  'network-failures': () =>
    table(
      ['reason', 'what to do', '`retryable`'],
      NETWORK_FAILURES.map((row) => [row.shown, textOf(row), row.isLasting ? 'no' : 'yes']),
    ),
  refusals: () =>
    table(
      ['`error`, or status', 'what to do', '`retryable`'],
      REFUSALS.map((row) => [
        [...(row.errors ?? []), ...(row.statuses ?? [])].map((sign) => `\`${sign}\``).join(', ') ||
          'otherwise',
        textOf(row),
        row.isTemporary ? 'yes' : 'no',
      ]),
    ),
  'store-failures': () =>
    table(
      ['code', 'what to do'],
      STORE_FAILURES.map(({ shown, advice }) => [shown, textOf({ advice, step: 'program' })]),
    ),
}

function textOf(row: Pick<Failure, 'advice' | 'step'>): string {
  return adviceOf(row, { ...PAGE, check: '' }).replaceAll('|', '\\|')
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')
}
