/** What a command sees of the world, and how it writes for people: colour where a terminal is, foreign text made harmless. */
import type { Writable } from 'node:stream'
import { styleText } from 'node:util'

/** What a command is given instead of the process. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdout: Writable
  readonly stderr: Writable
  /** Aborted by Ctrl-C, and by whoever else wants an end. */
  readonly signal: AbortSignal
}

/** A command of `merchant-auth`. */
export interface Command {
  /** What it is for, in a line. */
  readonly summary: string
  /** What `--help` prints. */
  readonly help: string
  /**
   * Runs it, and leaves nothing behind. Resolves with the exit code.
   *
   * @throws UsageError where the arguments make no sense
   */
  run(args: readonly string[], surroundings: Surroundings): Promise<number>
}

/** The exit codes, which scripts rely on. */
export const EXIT = {
  ok: 0,
  /** Something that should not happen. */
  unexpected: 1,
  /** The command line makes no sense. */
  usage: 2,
  /** Options or environment variables are missing or wrong. */
  configuration: 3,
  /** No answer from the token endpoint: name resolution, connection, TLS, time-out. */
  unreachable: 4,
  /** The token endpoint answered with an error status or a redirect. */
  refused: 5,
  /** The token endpoint answered with success, but with no token. */
  unusable: 6,
  /** The API call failed. */
  call: 7,
  /** The reader of the output left: 128 + SIGPIPE. */
  pipe: 141,
} as const

/** Exit codes of commands that a signal ended, as shells have them. */
export const SIGNAL_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const

const WIDTH = 100

/** How many columns a text may have: those of a terminal, up to 100. */
export function widthOf(stream: Writable): number {
  const { columns = WIDTH } = stream as Writable & { readonly columns?: number }
  return Math.max(40, Math.min(WIDTH, columns))
}

/** JSON in which all that is not ASCII is escaped: it could steer a terminal. */
export function asciiJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

type Style = Parameters<typeof styleText>[0]

/** Colours a text where the stream is a terminal that wants it (`NO_COLOR`, `FORCE_COLOR`). */
export function paint(style: Style, text: string, stream: Writable): string {
  return styleText(style, text, { stream, validateStream: true })
}

/** Foreign text on one line, without what could steer a terminal, and no longer than is read. */
export function printable(text: string, length = 300): string {
  const line = text.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ')
  return line.length > length ? `${line.slice(0, length)}…` : line
}

/** Whether the stream is a terminal that can be written over. */
export function isTerminal(stream: Writable): boolean {
  return (stream as Writable & { readonly isTTY?: boolean }).isTTY === true
}
