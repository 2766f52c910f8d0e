/** How commands write: color where a terminal is, and foreign text made harmless. */
import type { Readable, Writable } from 'node:stream'
import { styleText } from 'node:util'
import { printable, UsedSecrets } from '../base/redact.ts'

/** A stream that may be a terminal. */
export type Output = Writable & { readonly isTTY?: boolean }

/** A stdin that may be a terminal. */
export type Keyboard = Readable & { readonly isTTY?: boolean; setRawMode?(isRaw: boolean): unknown }

/** Colors a text where the stream is a terminal that supports it (`NO_COLOR`, `FORCE_COLOR`). */
export function paint(style: Parameters<typeof styleText>[0], text: string, stream: Output): string {
  return styleText(style, text, { stream })
}

/** Advice behind an arrow. */
export function arrow(indent: string, advice: string): string {
  return `${indent}→ ${advice.replaceAll('\n', `\n${indent}  `)}\n`
}

/** Writes a message of the command on stderr, with advice. */
export function complain(
  stderr: Output,
  text: string,
  { color = 'red', advice }: { readonly color?: 'red' | 'yellow'; readonly advice?: string | undefined } = {},
): void {
  stderr.write(`${paint(color, 'merchant-auth:', stderr)} ${text.replaceAll('\n', '\n  ')}\n`)
  if (advice !== undefined) stderr.write(arrow('  ', advice))
}

/** An instant (epoch s) as a date, or as the number that it is, if no date is so far away. */
export function instantText(epochSeconds: number): string {
  const date = new Date(epochSeconds * 1000)
  return Number.isNaN(date.getTime()) ? String(epochSeconds) : date.toISOString().replace(/\.\d+Z$/, 'Z')
}

/** Removes secrets from foreign text. What a command says in its own words is never searched. */
export class Redactor {
  readonly secrets: UsedSecrets = new UsedSecrets()

  /** The text as one printable line. */
  readonly show = (text: string): string => printable(text, { secrets: this.secrets })
}
