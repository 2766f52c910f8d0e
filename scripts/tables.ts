/** The tables of the manual that the code owns: what `<!-- table: NAME -->` in a page stands for. */
import { adviceOf, OPTIONS } from '../src/advice/failure.ts'
import { BY_STEP, NETWORK_FAILURES, type NetworkRow } from '../src/advice/network.ts'
import { REFUSAL_KINDS, type Refusal } from '../src/advice/refusals.ts'
import { STORE_FAILURES, type StoreFailure } from '../src/advice/store.ts'

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
      Object.values<NetworkRow>(NETWORK_FAILURES).map((row) => [
        shownOf(row),
        textOf(row.advice ?? BY_STEP[row.step]),
        row.isLasting ? 'no' : 'yes',
      ]),
    ),
  refusals: () =>
    table(
      ['`error`, or status', 'what to do', '`retryable`'],
      Object.values<Refusal>(REFUSAL_KINDS).map((row) => [
        [...(row.errors ?? []), ...(row.statuses ?? [])].map((sign) => `\`${sign}\``).join(', ') ||
          'otherwise',
        textOf(row.advice),
        row.isTemporary ? 'yes' : 'no',
      ]),
    ),
  'store-failures': () =>
    table(
      ['code', 'what to do'],
      Object.values<StoreFailure>(STORE_FAILURES).map((row) => [shownOf(row), textOf(row.advice)]),
    ),
}

/** What a kind is recognized by: codes, each with the circumstance in which it means that. */
function shownOf({ shown, codes = [] }: Pick<NetworkRow, 'codes' | 'shown'>): string {
  const circumstance = /( (?:in the body|on this machine|on Windows|of several addresses))?$/
  const signs = codes.map((code) => {
    const [end = ''] = circumstance.exec(code) ?? []
    return code === ''
      ? 'no code'
      : `\`${code.slice(0, code.length - end.length).replaceAll('*', '…')}\`${end}`
  })
  return shown ?? signs.join(', ')
}

function textOf(advice: string): string {
  return adviceOf({ advice }, { ...PAGE, check: '' }).replaceAll('|', '\\|')
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')
}
