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

/** How many columns a line may have: those of the terminal, 40 to 100; 80 where there is none, or it does not say. */
export function widthOf({ columns }: Output): number {
  return Math.max(40, Math.min(100, columns || 80))
}

/** The same for lines that programs may read: they are not wrapped where there is no terminal. */
export function lineWidthOf(stream: Output): number {
  return stream.isTTY === true ? widthOf(stream) : Number.POSITIVE_INFINITY
}

/** The prefix and the text, in lines of at most `width` columns; later lines are indented to where the text starts. */
export function wrap(prefix: string, text: string, width: number, indent: number = prefix.length): string {
  const lines = [prefix]
  let isFirst = true
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? ''
    if (!isFirst && line.length + 1 + word.length > width) lines.push(' '.repeat(indent) + word)
    else lines[lines.length - 1] = isFirst ? line + word : `${line} ${word}`
    isFirst = false
  }
  return lines.map((line) => line.trimEnd()).join('\n')
}

/** Advice behind an arrow. Each of its lines begins a new one, so that a command is not broken in two. */
export function arrow(indent: string, advice: string, width: number): string {
  const lines = advice.split('\n').map((line, n) => wrap(`${indent}${n === 0 ? '→' : ' '} `, line, width))
  return `${lines.join('\n')}\n`
}

/** Writes a message of the command on stderr, with advice. */
export function complain(
  stderr: Output,
  text: string,
  { color = 'red', advice }: { readonly color?: 'red' | 'yellow'; readonly advice?: string | undefined } = {},
): void {
  const width = lineWidthOf(stderr)
  const name = 'merchant-auth:'
  const lines = text.split('\n').map((line, n) => wrap(n === 0 ? `${name} ` : '  ', line, width, 2))
  stderr.write(`${paint(color, name, stderr)}${lines.join('\n').slice(name.length)}\n`)
  if (advice !== undefined) stderr.write(arrow('  ', advice, width))
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

/** An instant (epoch s) as a date; as it is where no date can hold it. */
export function instantText(epochSeconds: number): string {
  const date = new Date(epochSeconds * 1000)
  return Number.isNaN(date.getTime()) ? String(epochSeconds) : date.toISOString().replace(/\.\d+Z$/, 'Z')
}

/** Removes secrets from foreign text. What a command says in its own words is never searched. */
export class Redactor {
  readonly secrets: UsedSecrets = new UsedSecrets()

  /** The text as one printable line. Searched before it is cut, so that no part of a secret remains. */
  readonly show = (text: string): string => printable(redact(text, this.secrets))
}
