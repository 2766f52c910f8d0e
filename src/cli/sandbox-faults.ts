/** Faults by flag: what `--fault TARGET:KIND[,key=value…]` orders, and everything that is wrong with it. */
import { ConfigurationError } from '../errors.ts'
import { type Fault, FaultQueues } from '../testing/faults.ts'
import type { SandboxTarget } from '../testing/index.ts'
import { UsageError } from './arguments.ts'

/** A fault that a flag orders. */
export interface FaultOrder {
  readonly target: SandboxTarget
  readonly fault: Fault
  /** How many requests meet it; Infinity: all until the sandbox ends. */
  readonly times: number
  /** What it is called where a request meets it: the flag's own words. */
  readonly label: string
}

const TARGETS: readonly string[] = ['token', 'merchant', 'in-store'] satisfies SandboxTarget[]

/** The keys, with the option of a fault that each stands for; a kind is one of them, too. */
const KEYS: Readonly<Record<string, { readonly option: string; readonly value: ValueKind }>> = {
  status: { option: 'status', value: 'number' },
  'retry-after': { option: 'retryAfter', value: 'number' },
  hang: { option: 'kind', value: 'none' },
  at: { option: 'at', value: 'text' },
  reset: { option: 'kind', value: 'none' },
  'slow-body': { option: 'durationMs', value: 'number' },
  'truncated-body': { option: 'kind', value: 'none' },
  'huge-body': { option: 'bytes', value: 'number or none' },
  gzip: { option: 'gzip', value: 'none' },
  json: { option: 'body', value: 'json' },
  text: { option: 'body', value: 'text' },
  type: { option: 'contentType', value: 'text' },
  redirect: { option: 'location', value: 'text' },
  times: { option: 'times', value: 'number' },
}

type ValueKind = 'none' | 'number' | 'number or none' | 'text' | 'json'

/** What goes with which kind. The first kind that is there is meant: a status may have a body, a text a status. */
const KINDS: readonly (readonly [kind: Fault['kind'], ...keys: readonly string[]])[] = [
  ['hang', 'at'],
  ['reset'],
  ['slow-body'],
  ['truncated-body'],
  ['huge-body', 'gzip'],
  ['text', 'status', 'type'],
  ['redirect', 'status'],
  ['status', 'retry-after', 'json'],
  ['json'],
]

/** What faults.ts says of values that a flag cannot have. */
const REASONS: Readonly<Record<string, string>> = {
  'retry-after': 'must be a whole number of seconds',
  times: 'must be a whole number of at least 1',
}

/**
 * The faults of all flags, in their order.
 *
 * @throws UsageError
 */
export function readFaults(flags: readonly string[]): readonly FaultOrder[] {
  const orders = flags.map(readFault)
  const standing = new Set<SandboxTarget>()
  for (const { target, times } of orders) {
    if (standing.has(target)) {
      throw new UsageError(
        `--fault ${target}: a fault comes after one that stands until the end, and would never be met. ` +
          'Give the first one times=N.',
      )
    }
    if (times === Number.POSITIVE_INFINITY) standing.add(target)
  }
  return orders
}

function readFault(flag: string): FaultOrder {
  const [target = '', spec] = splitAt(flag, ':')
  if (!TARGETS.includes(target)) {
    throw new UsageError(`--fault must begin with ${oneOf(TARGETS)}, and a colon.`)
  }
  const parts = partsOf(spec ?? '', target)
  const [kind, ...keys] = KINDS.find(([name]) => parts.has(name)) ?? []
  if (kind === undefined) {
    throw new UsageError(`--fault ${target}: needs a kind: ${oneOf(KINDS.map(([name]) => name))}.`)
  }
  const named = `--fault ${target}:${kind}`
  const allowed = [...keys, 'times']
  for (const name of parts.keys()) {
    if (name === kind || allowed.includes(name)) continue
    throw new UsageError(`${named}: ${name} does not go with ${kind}. ${kind} goes with ${oneOf(allowed)}.`)
  }
  const options = Object.fromEntries([...parts].map(([name, text]) => optionOf(named, [name, text])))
  const { times = Number.POSITIVE_INFINITY, ...rest } = options
  const order = { target, fault: { ...rest, kind }, times }
  check(order, named, [kind, ...allowed])
  const label = [...parts].flatMap(([name, text]) => {
    if (name === 'times') return []
    return text === undefined ? name : `${name}=${text}`
  })
  return { ...(order as Omit<FaultOrder, 'label'>), label: label.join(',') }
}

/** The parts between the commas; `json=` and `text=` take all that is left, with its commas. */
function partsOf(spec: string, target: string): Map<string, string | undefined> {
  const parts = new Map<string, string | undefined>()
  for (let rest: string | undefined = spec; rest !== undefined; ) {
    const [piece, left]: readonly [string, string?] = /^(?:json|text)=/.test(rest)
      ? [rest]
      : splitAt(rest, ',')
    const [name = '', text] = splitAt(piece, '=')
    if (!Object.hasOwn(KEYS, name)) {
      // What stands in the place of a name may be part of a value.
      const shown = /^[a-z-]{1,20}$/.test(name) ? `there is no ${name}` : 'a name is missing or wrong'
      throw new UsageError(`--fault ${target}: ${shown}. Known are ${Object.keys(KEYS).join(', ')}.`)
    }
    if (parts.has(name)) throw new UsageError(`--fault ${target}: ${name} is there twice.`)
    parts.set(name, text)
    rest = left
  }
  return parts
}

function optionOf(named: string, [name, text]: readonly [string, string | undefined]): [string, unknown] {
  const { option = name, value = 'text' } = KEYS[name] ?? {}
  if (value === 'none') {
    if (text !== undefined) throw new UsageError(`${named}: ${name} takes no value.`)
    return [option, true]
  }
  if (value === 'number or none' && text === undefined) return [option, undefined]
  if (text === undefined || (text === '' && name !== 'text')) {
    throw new UsageError(`${named}: ${name} needs a value, as in ${name}=….`)
  }
  if (value === 'text') return [option, text]
  if (value === 'json') return [option, jsonOf(named, text)]
  return [option, /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN]
}

function jsonOf(named: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new UsageError(`${named}: json must be JSON. It takes the rest of the flag, so it comes last.`)
  }
}

/** Lets the sandbox's own check say what is wrong, in words of the flag. */
function check(order: unknown, named: string, names: readonly string[]): void {
  try {
    new FaultQueues().add(order)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    const problems = error.problems.map(({ option, reason }) => {
      const name = names.find((one) => KEYS[one]?.option === option.replace(/^fault\./, '')) ?? option
      return `${name} ${REASONS[name] ?? reason}`
    })
    throw new UsageError(`${named}: ${problems.join('; ')}.`)
  }
}

/** What stands before the first separator and behind it; without one, only the text. */
function splitAt(text: string, separator: string): readonly [string, string?] {
  const index = text.indexOf(separator)
  return index < 0 ? [text] : [text.slice(0, index), text.slice(index + separator.length)]
}

function oneOf(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}
