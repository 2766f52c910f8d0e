/** How commands write: color where a terminal is, lines that fit its width, and foreign text made harmless. */
import type { Readable, Writable } from 'node:stream'
import { styleText } from 'node:util'
import { redact, UsedSecrets } from '../redact.ts'

/** A stream that may be a terminal. */
export type Output = Writable & { readonly isTTY?: boolean; readonly columns?: number }

/** A stdin that may be a terminal. */
export type Keyboard = Readable & { readonly isTTY?: boolean; setRawMode?(isRaw: boolean): unknown }

/** Colors a text where the stream is a terminal that supports it (`NO_COLOR`, `FORCE_COLOR`). */
export function paint(style: Parameters<typeof styleText>[0], text: string, stream: Output): string {
  return styleText(style, text, { stream, validateStream: true })
}

/** How many columns a line may have: those of the terminal, 40 to 100. */
export function widthOf({ columns = 100 }: Output): number {
  return Math.max(40, Math.min(100, columns))
}

/** The prefix and the text, in lines of at most `width` columns; later lines are indented to where the text starts. */
export function wrap(prefix: string, text: string, width: number): string {
  const lines = [prefix]
  let isFirst = true
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? ''
    if (!isFirst && line.length + 1 + word.length > width) lines.push(' '.repeat(prefix.length) + word)
    else lines[lines.length - 1] = isFirst ? line + word : `${line} ${word}`
    isFirst = false
  }
  return lines.join('\n')
}

/** Foreign text on one line of limited length, without characters that could control a terminal. */
export function printable(text: string, length = 300): string {
  const line = text.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ')
  return line.length > length ? `${line.slice(0, length)}…` : line
}

/** JSON in ASCII: other characters, which could control a terminal, are escaped. */
export function asciiJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Removes secrets from foreign text. What a command says in its own words is never searched. */
export class Redactor {
  readonly secrets: UsedSecrets = new UsedSecrets()

  /** The text as one printable line. Searched before it is cut, so that no part of a secret remains. */
  readonly show = (text: string): string => printable(redact(text, this.secrets))
}
