/** The tables of the manual that the code owns: what `<!-- table: NAME -->` in a page stands for. */
import { adviceOf, OPTIONS } from '../src/advice/failure.ts'
import { NETWORK_FAILURES, type NetworkRow } from '../src/advice/network.ts'
import { REFUSAL_KINDS, type Refusal } from '../src/advice/refusals.ts'
import { checkCommand } from '../src/cli/check.ts'
import { sandboxCommand } from '../src/cli/sandbox.ts'
import { VARIABLE_NAMES } from '../src/options/variables.ts'
import { declarationsIn, type Member, membersOf } from './comments.ts'
import { recordedMetrics } from './metrics.ts'

/** In a page, an option is code, and a section of the manual is a link. */
const PAGE = Object.fromEntries(
  Object.entries(OPTIONS).map(([name, words]) => [
    name,
    words.replace(/merchant-auth\/docs\/([\w-]+\.md(?:#[\w-]+)?)/g, (_, link: string) => `[more](${link})`),
  ]),
)

/** What the page calls the refusals that have neither an error nor a status of their own. */
const REFUSALS_WITHOUT_SIGN: Readonly<Record<string, string>> = {
  fields: '`400`, `422` without a reason',
  basic: '`WWW-Authenticate: Basic`',
  assertion: 'an assertion rejected',
  'no-audience': 'these, to a request without `audience`',
  other: 'any other',
}

/** The tables, by their names. */
export const TABLES: Readonly<Record<string, () => string>> = {
  options: () =>
    optionTable([
      ...membersOf('options/options.ts', 'GeneralOptions'),
      ...ofTwo('WithClientSecret', 'this or `clientAssertion`'),
      ...ofTwo('WithClientAssertion', 'this or `clientSecret`'),
    ]),
  'environment-options': () =>
    optionTable([
      ...membersOf('environment/environment.ts', 'EnvironmentAddresses'),
      ...membersOf('environment/environment.ts', 'WithAudience'),
    ]),
  'attach-options': () => optionTable(membersOf('options/options.ts', 'AttachOptions')),
  variables: () => table(['variable', 'option'], variableRows()),
  codes: () => table(['`code`', 'class', 'what happened'], codeRows()),
  // The message says what to do.
  'network-failures': () =>
    table(
      ['kind', 'reason', '`retryable`'],
      Object.entries<NetworkRow>(NETWORK_FAILURES).map(([kind, row]) => [
        kind.replaceAll('-', ' '),
        shownOf(row),
        row.isLasting ? 'no' : 'yes',
      ]),
    ),
  refusals: () =>
    table(
      ['`error`, status', 'what to do', '`retryable`'],
      Object.entries<Refusal>(REFUSAL_KINDS).map(([kind, { errors = [], statuses = [], ...row }]) => [
        [...errors, ...statuses].map((sign) => `\`${sign}\``).join(', ') ||
          (REFUSALS_WITHOUT_SIGN[kind] ?? kind),
        actionOf(
          row.advice.replaceAll('{credential}', kind === 'assertion' ? 'clientAssertion' : 'clientSecret'),
        ),
        row.isTemporary ? 'yes' : 'no',
      ]),
    ),
  events: () => table(['`type`', 'when', 'fields'], eventRows()),
  metrics: () => table(['metric', 'type, unit', 'meaning', 'attributes'], metricRows()),
  'exit-codes': () =>
    table(
      ['code', 'meaning'],
      [...checkCommand.help.matchAll(/^ {2}(\d[\d, ]*) {2,}(.+)$/gm)].map((found) => found.slice(1)),
    ),
  // check and token: their help is enough.
  'command-sandbox': () => table(['flag', 'meaning'], flagRows(sandboxCommand.help)),
}

function optionTable(members: readonly Member[]): string {
  const rows = members.map((member) => [`\`${member.name}\``, textIn(member), defaultOf(member)])
  return table(['option', 'meaning', 'default'], rows)
}

/** What one of the two interfaces of which a client has one adds to the options. */
function ofTwo(name: string, instead: string): Member[] {
  const members = membersOf('options/options.ts', name).filter(({ type }) => type !== 'undefined')
  return members.map((member) => ({ ...member, default: member.default ?? instead }))
}

function defaultOf({ default: value, isOptional }: Member): string {
  if (value === undefined) return isOptional ? 'none' : 'required'
  return /^(?:'.*'|\[.*\]|[\d_]+|false|true)$/.test(value) ? `\`${value}\`` : pageText(value)
}

/** @throws where the list in the comment of `optionsFromEnv` is not that of the variables */
function variableRows(): string[][] {
  const { items = [] } =
    declarationsIn('options/from-env.ts').find(({ code }) => code.startsWith(' optionsFromEnv')) ?? {}
  const rows = items.map((item) => /^(`\w+`): (.+)$/.exec(item)?.slice(1).map(pageText) ?? [])
  const missing = VARIABLE_NAMES.find((name) => !rows.some(([one]) => one === `\`${name}\``))
  if (missing !== undefined || rows.length > VARIABLE_NAMES.length)
    throw new Error(
      `The comment of optionsFromEnv has ${missing ? `no ${missing}` : 'more than the variables'}`,
    )
  return rows
}

/** @throws where the list in the comment is not that of the type */
function codeRows(): string[][] {
  const type = declarationsIn('base/errors.ts').find(({ name }) => name === 'MerchantAuthErrorCode')
  const codes = [...(type?.code ?? '').matchAll(/'(ERR_\w+)'/g)]
  const rows = codes.map(([, code = '']) => {
    const item = type?.items.find((text) => text.startsWith(`\`${code}\` `)) ?? ''
    const [, name, text] = /\(\{@link (\w+)\}\): (.+)$/.exec(item) ?? []
    if (name === undefined || text === undefined) throw new Error(`${code} has no class and meaning`)
    return [`\`${code}\``, `\`${name}\``, pageText(text)]
  })
  if (rows.length === 0 || rows.length !== type?.items.length) throw new Error('A code is not in its type')
  return rows
}

function eventRows(): string[][] {
  const types = declarationsIn('events/events.ts').filter(({ name }) => name.endsWith('Event'))
  return types.flatMap(({ name, text, code }) => {
    if (name === 'AuthEvent') return []
    const [, base = ''] = /extends (\w+)/.exec(code) ?? []
    const own = membersOf('events/events.ts', name)
    const inherited = base === 'AuthEventBase' ? [] : membersOf('events/events.ts', base)
    const type = own.find((member) => member.name === 'type')?.type ?? ''
    const fields = [...inherited, ...own].filter((member) => member.name !== 'type')
    return [[`\`${type.slice(1, -1)}\``, pageText(text), fields.map(fieldText).join(', ')]]
  })
}

/** The name of a field, with its values if these are few. */
function fieldText({ name, type }: Member): string {
  const values = [...type.matchAll(/'([\w-]+)'/g)].map(([, value]) => `\`${value}\``)
  return `\`${name}\`${values.length > 0 ? ` (${values.join(', ')})` : ''}`
}

function metricRows(): string[][] {
  return recordedMetrics().map(({ name, type, unit, description, attributes }) => [
    `\`${name}\``,
    unit.startsWith('{') ? type : `${type}, ${unit}`,
    description,
    [...attributes]
      .filter((attribute) => attribute !== 'merchant_auth.environment')
      .map((attribute) => `\`${attribute}\``)
      .join(', '),
  ])
}

/** The flags that a help explains. */
function flagRows(help: string): string[][] {
  const flags = help.matchAll(/^ {2}(--\S+(?: [^a-z\s]\S*)?)(?: {2,}|\n)((?:.+\n {20,})*.+)$/gm)
  return [...flags].map(([, flag = '', text = '']) => [
    `\`${flag}\``,
    pageText(text.trim().replaceAll(/\s+/g, ' ').replace(' (docs/command.md)', '')),
  ])
}

/** @throws where a member has no comment */
function textIn({ name, text }: Member): string {
  if (text === '') throw new Error(`${name} has no comment`)
  return pageText(text)
}

/** Sections of standards become links. */
function pageText(text: string): string {
  return text
    .replaceAll(/\bRFC (\d+) §([\d.]*\d)/g, '[RFC $1 §$2](https://www.rfc-editor.org/rfc/rfc$1#section-$2)')
    .replaceAll('|', '\\|')
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

/** Advice up to its first reason: the message has the rest. */
function actionOf(advice: string): string {
  return textOf(advice.split(/:|, as |[.!?](?= |$)/)[0] ?? '')
}

function textOf(advice: string): string {
  return adviceOf({ advice }, { ...PAGE, check: '' }).replaceAll('|', '\\|')
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')
}
