/** What a check found, step by step: as lines for people, or as one JSON object. */
import type { Writable } from 'node:stream'
import type { Step } from './diagnosis.ts'
import { Hiding, MOST_ADVICE } from './hiding.ts'
import { asciiJson, isTerminal, paint, widthOf } from './terminal.ts'

/** `info` and `warning` leave the outcome as it is. */
export type Result = 'ok' | 'failed' | 'warning' | 'info'

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
  /** Takes a secret out of whatever is reported from now on. */
  hide(secret: string): void
  /** One line of foreign text, fit to be part of a finding. */
  foreign(text: string): string
  add(finding: Finding): void
  /** Says on a terminal what is waited for, until the next finding. */
  pending(text: string): void
  /** Leaves it as it is. */
  stop(): void
  /** Ends the report, and gives back the exit code. */
  end(exitCode: number): number
}

/** How findings are written. */
interface Writing {
  add(finding: Finding): void
  pending(text: string): void
  stop(): void
  end(exitCode: number, warnings: number): void
}

/** A report in which nothing foreign steers a terminal, and no secret stands, whoever repeats it. */
function reportBy(writing: Writing): Report {
  const hiding = new Hiding()
  let warnings = 0
  const clean = (text: string): string =>
    text
      .split('\n')
      .map((line) => hiding.shown(line))
      .join('\n')
  return {
    hide: (secret) => hiding.add(secret),
    foreign: (text) => hiding.shown(text),
    add({ text, advice, ...rest }) {
      if (rest.result === 'warning') warnings += 1
      const others = JSON.parse(JSON.stringify(rest), (_, value) =>
        typeof value === 'string' ? clean(value) : value,
      )
      writing.add({
        ...others,
        text: clean(text),
        ...(advice ? { advice: hiding.shown(advice, MOST_ADVICE) } : {}),
      })
    },
    pending: (text) => writing.pending(clean(text)),
    stop: () => writing.stop(),
    end(exitCode) {
      writing.end(exitCode, warnings)
      return exitCode
    },
  }
}

/** Lines for people. */
export function textReport(stream: Writable): Report {
  let last: Finding['step'] | undefined
  let isPending = false
  const width = widthOf(stream)
  const clear = (): void => {
    if (isPending) stream.write('\r\x1b[2K')
    isPending = false
  }
  return reportBy({
    pending(text) {
      if (!isTerminal(stream) || process.env['TERM'] === 'dumb') return
      clear()
      stream.write(paint('dim', `… ${text}`.slice(0, width - 1), stream))
      isPending = true
    },
    add({ step, result, text, advice }) {
      clear()
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
    end(exitCode, warnings) {
      clear()
      const noted = warnings === 1 ? 'Good, with a warning.' : `Good, with ${warnings} warnings.`
      const outcome =
        exitCode !== 0
          ? paint('red', `Not good (exit code ${exitCode}).`, stream)
          : warnings > 0
            ? paint('yellow', noted, stream)
            : paint('green', 'All good.', stream)
      stream.write(`\n${outcome}\n`)
    },
  })
}

/** One JSON object at the end. */
export function jsonReport(stream: Writable): Report {
  const steps: Finding[] = []
  return reportBy({
    pending: () => {},
    stop: () => {},
    add: (finding) => {
      steps.push(finding)
    },
    end(exitCode, warnings) {
      stream.write(`${asciiJson({ ok: exitCode === 0, exitCode, warnings, steps }, 2)}\n`)
    },
  })
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
