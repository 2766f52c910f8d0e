/** What a check found, step by step: as lines for people, or as one JSON object. */
import { asciiJson, type Output, paint, widthOf, wrap } from './terminal.ts'

const TITLES = {
  options: 'Options',
  name: 'Name',
  connection: 'Connection',
  tls: 'TLS',
  answer: 'Response',
  token: 'Token',
  jwt: 'JWT',
  call: 'API call',
} as const

export type Step = keyof typeof TITLES

const RESULTS = {
  ok: ['✓', 'green'],
  failed: ['✗', 'red'],
  warning: ['!', 'yellow'],
  info: ['i', 'cyan'],
} as const

/** One thing that was found. Its texts are fit to be shown. */
export interface Finding {
  readonly step: Step
  /** `info` and `warning` do not change the outcome. */
  readonly result: keyof typeof RESULTS
  /** What was found, in one or more lines. */
  readonly text: string
  /** What to do about it. */
  readonly advice?: string | undefined
  /** The codes of an error, for programs. */
  readonly code?: string | undefined
  readonly cause?: string | undefined
  readonly status?: number | undefined
  readonly error?: string | undefined
  /** Values, for programs. */
  readonly data?: Readonly<Record<string, unknown>> | undefined
}

export interface Report {
  add(finding: Finding): void
  /** Shows on a terminal what the check is waiting for, until the next finding. */
  pending(text: string): void
  /** Removes what {@link pending} shows. */
  clear(): void
  /** Completes the report, and returns the exit code. */
  end(exitCode: number): number
}

const INDENT = 14

/** Lines for people. */
export function textReport(stream: Output): Report {
  const width = widthOf(stream)
  let lastStep: Step | undefined
  let warnings = 0
  let isPending = false
  const clear = (): void => {
    if (isPending) stream.write('\r\x1b[2K')
    isPending = false
  }
  return {
    clear,
    pending(text) {
      if (stream.isTTY !== true || process.env['TERM'] === 'dumb') return
      clear()
      stream.write(paint('dim', `… ${text}`.slice(0, width - 1), stream))
      isPending = true
    },
    add({ step, result, text, advice }) {
      clear()
      if (result === 'warning') warnings += 1
      const title = step === lastStep ? '' : TITLES[step]
      lastStep = step
      const [mark, style] = RESULTS[result]
      const indent = ' '.repeat(INDENT)
      const name = paint('bold', title, stream) + ' '.repeat(INDENT - 2 - title.length)
      stream.write(`${paint(style, mark, stream)} ${name}${text.replaceAll('\n', `\n${indent}`)}\n`)
      if (advice) stream.write(`${wrap(`${indent}→ `, advice, width)}\n`)
    },
    end(exitCode) {
      clear()
      const [style, outcome] =
        exitCode !== 0
          ? (['red', `Failed (exit code ${exitCode}).`] as const)
          : warnings > 0
            ? (['yellow', `Passed, with ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}.`] as const)
            : (['green', 'Passed.'] as const)
      stream.write(`\n${paint(style, outcome, stream)}\n`)
      return exitCode
    },
  }
}

/** One JSON object at the end. */
export function jsonReport(stream: Output): Report {
  const steps: Finding[] = []
  return {
    clear: () => {},
    pending: () => {},
    add: (finding) => void steps.push(finding),
    end(exitCode) {
      const warnings = steps.filter(({ result }) => result === 'warning').length
      stream.write(`${asciiJson({ ok: exitCode === 0, exitCode, warnings, steps }, 2)}\n`)
      return exitCode
    },
  }
}
