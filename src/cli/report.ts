/** What a check found, step by step: as lines for people, or as one JSON object. */
import { arrow, asciiJson, type Output, paint, widthOf, wrap } from './terminal.ts'

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

/** The longest label is `token endpoint`. */
const LABEL_WIDTH = 15

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
  /** What was found, in one or more lines. A tab separates a label from its value. */
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
  /** Shows on a terminal what the check is waiting for, until the next finding; without a text nothing more. */
  pending(text?: string): void
  /** Completes the report, and returns the exit code. */
  end(exitCode: number): number
}

/** Lines for people. */
export function textReport(stream: Output): Report {
  const width = widthOf(stream)
  const indent = ' '.repeat(14)
  let lastStep: Step | undefined
  let warnings = 0
  let isPending = false
  const pending = (text?: string): void => {
    if (isPending) stream.write('\r\x1b[2K')
    isPending = text !== undefined && stream.isTTY === true && process.env['TERM'] !== 'dumb'
    if (isPending) stream.write(paint('dim', `… ${text}`.slice(0, width - 1), stream))
  }
  return {
    pending,
    add({ step, result, text, advice }) {
      pending()
      if (result === 'warning') warnings += 1
      const title = step === lastStep ? '' : TITLES[step]
      lastStep = step
      const [mark, style] = RESULTS[result]
      const name = paint('bold', title, stream) + indent.slice(2 + title.length)
      const lines = text.split('\n').map((line) => {
        const [label = '', value] = line.split('\t')
        if (value === undefined) return wrap(indent, line, width)
        const beside = wrap(indent + label.padEnd(LABEL_WIDTH), value, width)
        const fits = beside.split('\n').every((part) => part.length <= width)
        return fits
          ? beside
          : [label && indent + label, wrap(`${indent}  `, value, width)].filter(Boolean).join('\n')
      })
      stream.write(`${paint(style, mark, stream)} ${name}${lines.join('\n').slice(indent.length)}\n`)
      if (advice) stream.write(arrow(indent, advice, width))
    },
    end(exitCode) {
      pending()
      let outcome = paint('green', 'Passed.', stream)
      if (exitCode !== 0) outcome = paint('red', `Failed (exit code ${exitCode}).`, stream)
      else if (warnings > 0)
        outcome = paint(
          'yellow',
          `Passed, with ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}.`,
          stream,
        )
      stream.write(`\n${outcome}\n`)
      return exitCode
    },
  }
}

/** One JSON object at the end. */
export function jsonReport(stream: Output): Report {
  const steps: Finding[] = []
  return {
    pending: () => {},
    add: (finding) => void steps.push({ ...finding, text: finding.text.replaceAll('\t', ' ') }),
    end(exitCode) {
      const warnings = steps.filter(({ result }) => result === 'warning').length
      stream.write(`${asciiJson({ ok: exitCode === 0, exitCode, warnings, steps }, 2)}\n`)
      return exitCode
    },
  }
}
