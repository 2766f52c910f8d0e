/** What a check found, step by step: as lines for people, or as one JSON object. */
import { arrow, type Output, paint } from './terminal.ts'

/** The steps, and how lines for people write their names. */
const TITLES = {
  options: 'Options',
  store: 'Store',
  name: 'Name',
  connection: 'Connection',
  tls: 'TLS',
  response: 'Response',
  token: 'Token',
  jwt: 'JWT',
  call: 'Call',
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
  /** Completes the report, and returns the exit code. */
  end(exitCode: number): number
}

/** Lines for people. */
export function textReport(stream: Output): Report {
  const indent = ' '.repeat(14)
  let lastStep: Step | undefined
  let warnings = 0
  return {
    add({ step, result, text, advice }) {
      if (result === 'warning') warnings += 1
      const title = step === lastStep ? '' : TITLES[step]
      lastStep = step
      const [mark, style] = RESULTS[result]
      const lines = text
        .replace(/^(.*)\t/gm, (_, label: string) => label.padEnd(15)) // the longest label: `token endpoint`
        .replaceAll('\n', `\n${indent}`)
      stream.write(`${paint(style, mark, stream)} ${paint('bold', title.padEnd(12), stream)}${lines}\n`)
      if (advice) stream.write(arrow(indent, advice))
    },
    end(exitCode) {
      const count = warnings === 1 ? '1 warning' : `${warnings} warnings`
      const passed =
        warnings === 0 ? paint('green', 'Passed.', stream) : paint('yellow', `Passed, with ${count}.`, stream)
      const failed = paint('red', `Failed (exit code ${exitCode}).`, stream)
      stream.write(`\n${exitCode === 0 ? passed : failed}\n`)
      return exitCode
    },
  }
}

/** One JSON object at the end. */
export function jsonReport(stream: Output): Report {
  const steps: Finding[] = []
  return {
    add: (finding) => void steps.push({ ...finding, text: finding.text.replaceAll('\t', ' ') }),
    end(exitCode) {
      const warnings = steps.filter(({ result }) => result === 'warning').length
      stream.write(`${JSON.stringify({ ok: exitCode === 0, exitCode, warnings, steps }, null, 2)}\n`)
      return exitCode
    },
  }
}
