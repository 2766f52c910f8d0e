/** What a check found, step by step: as lines for people, or as one JSON object. */
import type { Writable } from 'node:stream'
import type { Step } from './diagnosis.ts'
import { asciiJson, isTerminal, paint, widthOf } from './terminal.ts'

/** `info` and `warning` leave the outcome as it is. */
export type Result = 'ok' | 'failed' | 'warning' | 'info'

/** One thing that was found. Its texts are as they are shown: what is foreign in them was made fit for that before. */
export interface Finding {
  readonly step: Step | 'jwt' | 'call'
  readonly result: Result
  /** What was found. May have several lines. */
  readonly text: string
  /** What to do about it. */
  readonly advice?: string | undefined
  /** The codes of an error, for programs. */
  readonly code?: string | undefined
  readonly cause?: string | undefined
  readonly status?: number | undefined
  readonly error?: string | undefined
  /** Figures, for programs. */
  readonly data?: Readonly<Record<string, unknown>> | undefined
}

const MARKS = { ok: '✓', failed: '✗', warning: '!', info: 'i' } as const
const STYLES = { ok: 'green', failed: 'red', warning: 'yellow', info: 'cyan' } as const

const TITLES: Readonly<Record<Finding['step'], string>> = {
  options: 'Options',
  name: 'Name',
  connection: 'Connection',
  tls: 'TLS',
  answer: 'Answer',
  token: 'Token',
  jwt: 'JWT',
  call: 'API call',
}

const INDENT = 14

/** Where findings go as they come. */
export interface Report {
  add(finding: Finding): void
  /** Says on a terminal what is waited for, until the next finding. */
  pending(text: string): void
  /** Leaves it as it is. */
  stop(): void
  /** Ends the report, and gives back the exit code. */
  end(exitCode: number): number
}

/** Lines for people. */
export function textReport(stream: Writable): Report {
  let last: Finding['step'] | undefined
  let isPending = false
  let warnings = 0
  const width = widthOf(stream)
  const clear = (): void => {
    if (isPending) stream.write('\r\x1b[2K')
    isPending = false
  }
  return {
    pending(text) {
      if (!isTerminal(stream) || process.env['TERM'] === 'dumb') return
      clear()
      stream.write(paint('dim', `… ${text}`.slice(0, width - 1), stream))
      isPending = true
    },
    add({ step, result, text, advice }) {
      clear()
      if (result === 'warning') warnings += 1
      const title = step === last ? '' : TITLES[step]
      last = step
      const mark = paint(STYLES[result], MARKS[result], stream)
      const [first = '', ...more] = text.split('\n')
      const name = paint('bold', title, stream) + ' '.repeat(INDENT - 2 - title.length)
      stream.write(`${mark} ${name}${first}\n`)
      for (const line of more) stream.write(`${' '.repeat(INDENT)}${line}\n`)
      if (advice) stream.write(`${folded(`→ ${advice}`, { indent: INDENT, width })}\n`)
    },
    stop: clear,
    end(exitCode) {
      clear()
      const noted = warnings === 1 ? 'Good, with a warning.' : `Good, with ${warnings} warnings.`
      const outcome =
        exitCode !== 0
          ? paint('red', `Not good (exit code ${exitCode}).`, stream)
          : warnings > 0
            ? paint('yellow', noted, stream)
            : paint('green', 'All good.', stream)
      stream.write(`\n${outcome}\n`)
      return exitCode
    },
  }
}

/** One JSON object at the end. */
export function jsonReport(stream: Writable): Report {
  const steps: Finding[] = []
  return {
    pending: () => {},
    stop: () => {},
    add: (finding) => {
      steps.push(finding)
    },
    end(exitCode) {
      const warnings = steps.filter(({ result }) => result === 'warning').length
      stream.write(`${asciiJson({ ok: exitCode === 0, exitCode, warnings, steps }, 2)}\n`)
      return exitCode
    },
  }
}

/** The text in lines that begin at a column, the second ones below the first word. */
export function folded(
  text: string,
  { indent, width }: { readonly indent: number; readonly width: number },
): string {
  const lines: string[] = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? ''
    const isFull = line.length + 1 + word.length > width - indent && line !== ''
    if (isFull) lines.push(`  ${word}`)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.map((line) => ' '.repeat(indent) + line).join('\n')
}
