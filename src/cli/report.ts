/** What a check found, step by step: as lines for people, or as one JSON object. */
import type { Writable } from 'node:stream'
import type { Step } from './diagnosis.ts'
import { isTerminal, paint, printable } from './terminal.ts'

/** `info` and `warning` leave the outcome as it is; `skipped`: nothing could be said. */
export type Result = 'ok' | 'failed' | 'warning' | 'info' | 'skipped'

/** One thing that was found. */
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

const MARKS = { ok: '✓', failed: '✗', warning: '!', info: 'i', skipped: '-' } as const
const STYLES = { ok: 'green', failed: 'red', warning: 'yellow', info: 'cyan', skipped: 'dim' } as const

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
  const clear = (): void => {
    if (isPending) stream.write('\r\x1b[2K')
    isPending = false
  }
  return {
    pending(text) {
      if (!isTerminal(stream)) return
      clear()
      stream.write(paint('dim', `… ${text}`, stream))
      isPending = true
    },
    add({ step, result, text, advice }) {
      clear()
      const title = step === last ? '' : TITLES[step]
      last = step
      const mark = paint(STYLES[result], MARKS[result], stream)
      const [first = '', ...more] = text.split('\n').map((line) => printable(line))
      const name = paint('bold', title, stream) + ' '.repeat(INDENT - 2 - title.length)
      stream.write(`${mark} ${name}${first}\n`)
      for (const line of more) stream.write(`${' '.repeat(INDENT)}${line}\n`)
      if (advice) stream.write(`${folded(`→ ${advice}`, INDENT)}\n`)
    },
    stop: clear,
    end(exitCode) {
      clear()
      const outcome =
        exitCode === 0
          ? paint('green', 'All good.', stream)
          : paint('red', `Not good (exit code ${exitCode}).`, stream)
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
      stream.write(`${JSON.stringify({ ok: exitCode === 0, exitCode, steps }, null, 2)}\n`)
      return exitCode
    },
  }
}

const WIDTH = 100

/** The text in lines that begin at a column, the second ones below the first word. */
export function folded(text: string, indent: number): string {
  const lines: string[] = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? ''
    const isFull = line.length + 1 + word.length > WIDTH - indent && line !== ''
    if (isFull) lines.push(`  ${word}`)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.map((line) => ' '.repeat(indent) + line).join('\n')
}
