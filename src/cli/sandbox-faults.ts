/** The faults of a running sandbox, as flags (`--fault TARGET:KIND[,KEY=VALUE…]`) and keys queue them. */
import { ConfigurationError } from '../base/errors.ts'
import type { Fault, Sandbox, SandboxEnvironment, SandboxTarget } from '../testing/index.ts'
import { oneOf, UsageError } from './command.ts'

/** A fault, as it is queued. */
interface QueuedFault {
  readonly target: SandboxTarget
  readonly fault: Fault
  /** How many requests it applies to; Infinity: all further ones. */
  readonly times: number
  /** Only requests to this path, or below it. */
  readonly path?: string | undefined
  /** What it is called in the log, such as `status=503`. */
  readonly label: string
}

/** The faults of a sandbox. Each is queued in both environments, which give it the same id, as they count alike. */
export class SandboxFaults {
  readonly environments: readonly SandboxEnvironment[]
  readonly #labels = new Map<string, string>()

  constructor({ test, production }: Sandbox) {
    this.environments = [test, production]
  }

  /** Queues a fault behind those that its target has. */
  queue({ target, fault, times, path, label }: QueuedFault): void {
    for (const one of this.environments) this.#labels.set(one.fail(target, fault, { times, path }), label)
  }

  /**
   * Queues the fault of a flag.
   *
   * @throws UsageError
   */
  queueFlag(flag: string): void {
    const [, name, spec = ''] = /^([^:]*):(.*)$/s.exec(flag) ?? []
    const target = TARGETS.find((known) => known === name)
    if (target === undefined) throw new UsageError(`--fault must begin with ${oneOf(TARGETS)}, and a colon.`)
    const parts = partsOf(spec)
    const kind = KINDS.find((known) => parts.has(known))
    if (kind === undefined) throw new UsageError(`--fault ${target} needs a kind: ${oneOf(KINDS)}.`)
    const named = `--fault ${target}:${kind}`
    const options: Record<string, unknown> = { kind }
    for (const [key, text] of parts)
      if (text !== undefined) options[optionOf(key)] = parsed(key, text, named)
      else if (key !== kind) options[optionOf(key)] = true
    const { times = Number.POSITIVE_INFINITY, path, ...fault } = options
    const said = [...parts].filter(([key]) => key !== 'times')
    const label = said.map(([key, text]) => (text === undefined ? key : `${key}=${text}`)).join(',')
    try {
      this.queue({ target, fault: fault as Fault, times: Number(times), path: path as string, label }) // which checks it
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error
      const problems = error.problems.map(
        ({ option, reason }) => `${option.replace(/^fault\./, '')} ${reason}`, // the path of the option
      )
      throw new UsageError(`${named}: ${problems.join('; ')}.`)
    }
  }

  clear(): void {
    for (const one of this.environments) one.clearFaults()
  }

  labelOf(id: string | undefined): string | undefined {
    return id === undefined ? undefined : this.#labels.get(id)
  }
}

const TARGETS: readonly SandboxTarget[] = ['token', 'merchant', 'in-store']

/** The kinds. The first one in this order is meant: a text may have a status. */
const KINDS = [
  ...(['hang', 'reset', 'slow-body', 'truncated-body', 'huge-body'] as const),
  ...(['text', 'redirect', 'status', 'json'] as const),
]

/** The option of a fault that a key sets, where its name differs. */
const OPTIONS: Readonly<Record<string, string>> = {
  'retry-after': 'retryAfter',
  hang: 'durationMs',
  'slow-body': 'durationMs',
  'huge-body': 'bytes',
  json: 'body',
  text: 'body',
  type: 'contentType',
  redirect: 'location',
}

const optionOf = (key: string): string => OPTIONS[key] ?? key

/** The parts between commas; `json=` and `text=` take everything that follows. */
function partsOf(spec: string): Map<string, string | undefined> {
  const parts = spec.matchAll(/(?:^|,)((?:json|text)=.*|[^,]*)/gs)
  return new Map(
    [...parts].map(([, part = '']) => {
      const at = part.indexOf('=')
      return at === -1 ? [part, undefined] : [part.slice(0, at), part.slice(at + 1)]
    }),
  )
}

function parsed(key: string, text: string, named: string): unknown {
  if (key === 'text') return text
  if (key !== 'json') return /^\d+$/.test(text) ? Number(text) : text
  try {
    return JSON.parse(text)
  } catch {
    throw new UsageError(
      `${named}: json must be valid JSON. It takes the rest of the flag, so it must come last.`,
    )
  }
}
