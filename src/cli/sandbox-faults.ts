/** The faults of a running sandbox, as flags (`--fault TARGET:KIND[,KEY=VALUE…]`) and keys queue them. */
import { ConfigurationError } from '../errors.ts'
import type { Fault, Sandbox, SandboxEnvironment, SandboxTarget } from '../testing/index.ts'
import { didYouMean, helpRows, oneOf, UsageError } from './command.ts'
import { wrap } from './terminal.ts'

/** A fault, as it is queued. */
export interface QueuedFault {
  readonly target: SandboxTarget
  readonly fault: Fault
  /** How many requests it applies to; Infinity: all further ones. */
  readonly times: number
  /** What it is called in the log, such as `status=503`. */
  readonly label: string
}

/** The faults of a sandbox. Each is queued in both environments, which give it the same id, as they count alike. */
export class SandboxFaults {
  readonly environments: readonly SandboxEnvironment[]
  readonly #labels = new Map<string, string>()
  /** The targets with a fault for all further requests: another one would never apply. */
  readonly #permanent = new Set<SandboxTarget>()

  constructor({ test, production }: Sandbox) {
    this.environments = [test, production]
  }

  /** Queues a fault, unless it would never apply. Returns whether it is queued. */
  queue({ target, fault, times, label }: QueuedFault): boolean {
    if (this.#permanent.has(target)) return false
    for (const one of this.environments) this.#labels.set(one.fail(target, fault, { times }), label)
    if (times === Number.POSITIVE_INFINITY) this.#permanent.add(target)
    return true
  }

  /**
   * Queues the fault of a flag.
   *
   * @throws UsageError
   */
  queueFlag(flag: string): QueuedFault {
    const [, name, spec = ''] = /^([^:]*):(.*)$/s.exec(flag) ?? []
    const target = TARGETS.find((known) => known === name)
    if (target === undefined) throw new UsageError(`--fault must begin with ${oneOf(TARGETS)}, and a colon.`)
    const parts = partsOf(spec, `--fault ${target}`)
    const [kind] = KINDS.find(([known]) => parts.has(known)) ?? []
    if (kind === undefined)
      throw new UsageError(`--fault ${target} needs a kind: ${oneOf(KINDS.map(([known]) => known))}.`)
    const named = `--fault ${target}:${kind}`
    const options: Record<string, unknown> = { kind }
    for (const [key, text] of parts) {
      const value = readValue(key, text, named)
      if (key !== kind || text !== undefined) options[KEYS[key]?.[0] ?? key] = value
    }
    const { times = Number.POSITIVE_INFINITY, ...fault } = options
    const said = [...parts].filter(([key]) => key !== 'times')
    const label = said.map(([key, text]) => (text === undefined ? key : `${key}=${text}`)).join(',')
    const queued = { target, fault: fault as Fault, times: Number(times), label } // queue() checks it
    try {
      if (this.queue(queued)) return queued
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error
      const problems = error.problems.map(({ option, reason }) => {
        const key = [...parts.keys()].find((one) => KEYS[one]?.[0] === option.replace(/^fault\./, ''))
        return `${key ?? option} ${reason}`
      })
      throw new UsageError(`${named}: ${problems.join('; ')}.`)
    }
    throw new UsageError(
      `${named} never applies: the --fault before it applies to all requests. Add times=N to it.`,
    )
  }

  clear(): void {
    for (const one of this.environments) one.clearFaults()
    this.#permanent.clear()
  }

  labelOf(id: string | undefined): string | undefined {
    return id === undefined ? undefined : this.#labels.get(id)
  }
}

const TARGETS: readonly SandboxTarget[] = ['token', 'merchant', 'in-store']

/** Each key (a kind is one, too) with the option of a fault that it sets, and its value; `?`: it may be left out. */
const KEYS: Readonly<Record<string, readonly [option: string, value: string]>> = {
  status: ['status', 'number'],
  'retry-after': ['retryAfter', 'number'],
  hang: ['durationMs', 'number?'],
  at: ['at', 'text'],
  reset: ['reset', 'none'],
  'slow-body': ['durationMs', 'number'],
  'truncated-body': ['truncated-body', 'none'],
  'huge-body': ['bytes', 'number?'],
  gzip: ['gzip', 'none'],
  json: ['body', 'json'],
  text: ['body', 'text'],
  type: ['contentType', 'text'],
  redirect: ['location', 'text'],
  times: ['times', 'number'],
}

/** The kinds, with their values and keys for the help. The first that is given is meant: a text may have a status. */
const KINDS: readonly (readonly [kind: Fault['kind'], value: string, help: string])[] = [
  [
    'hang',
    '[=MS]',
    'no response, or none for MS milliseconds; with at=body: the usual response stops halfway',
  ],
  ['reset', '', 'the connection is reset'],
  ['slow-body', '=MS', 'the usual response, spread over MS milliseconds'],
  ['truncated-body', '', 'half of the usual response, then the connection is closed'],
  ['huge-body', '[=BYTES]', 'the usual response, padded to 10 MiB or to BYTES; with gzip: compressed'],
  ['text', '=TEXT', 'a text with status 200; with status=N, type=MEDIA-TYPE'],
  ['redirect', '=URL', 'status 307; with status=N: 300 to 399'],
  ['status', '=N', 'a status from 200 to 599; with retry-after=SECONDS, json=JSON as body'],
  ['json', '=JSON', 'JSON with status 200; with status=N'],
]

const TIMES =
  'With times=N, a fault applies to the next N requests to its target, in the order of the flags; otherwise to all. ' +
  'text= and json= take the rest of the flag, with commas, so they must come last:'

export function faultsHelp(width: number): string {
  const title = 'Kinds of faults. The usual response is the one that the request would have received:'
  const kinds = KINDS.map(([kind, value, help]) => [kind + value, help] as const)
  return `${wrap('', title, width)}
${helpRows(kinds, width)}
${wrap('', TIMES, width)}
  --fault 'token:status=502,text=<p>Not now, not here</p>'
${wrap('', 'No other value may contain a comma; in a URL, write %2C.', width)}`
}

/** The parts between commas; `json=` and `text=` take everything that follows. */
function partsOf(spec: string, named: string): Map<string, string | undefined> {
  const parts = new Map<string, string | undefined>()
  let rest: string | undefined = spec
  while (rest !== undefined) {
    const part: string = /^(?:json|text)=/.test(rest) ? rest : rest.replace(/,.*/s, '')
    rest = part.length < rest.length ? rest.slice(part.length + 1) : undefined
    const [, key = '', , text] = /^([^=]*)(=(.*))?$/s.exec(part) ?? []
    if (!Object.hasOwn(KEYS, key)) {
      // In the place of a key there may be part of a value.
      const what = /^[a-z-]{1,20}$/.test(key)
        ? `${key} is neither a kind nor a key`
        : 'a key is missing or invalid'
      const keys = Object.keys(KEYS)
      throw new UsageError(`${named}: ${what}.${didYouMean(key, keys)} The keys are ${keys.join(', ')}.`)
    }
    if (parts.has(key)) throw new UsageError(`${named}: ${key} is given twice.`)
    parts.set(key, text)
  }
  return parts
}

function readValue(key: string, text: string | undefined, named: string): unknown {
  const [, type] = KEYS[key] ?? []
  if (type === 'none') {
    if (text !== undefined) throw new UsageError(`${named}: ${key} takes no value.`)
    return true
  }
  if (type === 'number?' && text === undefined) return undefined
  if (text === undefined || (text === '' && key !== 'text'))
    throw new UsageError(`${named}: ${key} needs a value, as in ${key}=….`)
  if (type === 'text') return text
  if (type === 'json') {
    try {
      return JSON.parse(text)
    } catch {
      throw new UsageError(
        `${named}: json must be valid JSON. It takes the rest of the flag, so it must come last.`,
      )
    }
  }
  const least = key === 'times' ? 1 : 0
  if (/^\d{1,15}$/.test(text) && Number(text) >= least) return Number(text)
  throw new UsageError(`${named}: ${key} must be a whole number of at least ${least}.`)
}
