/** The text files that operators name in variables and flags: how their bytes are read, and what makes one unusable. */
import { existsSync } from 'node:fs'
import { nodeUtil } from '../base/builtin-modules.ts'
import type { Flaw } from '../base/errors.ts'

type UnreadableFile = { readonly text?: undefined; readonly wasMarked?: undefined; readonly flaw: Flaw }

/** The text of a file, or why it cannot be used. */
export type FileText =
  | {
      readonly text: string
      /** Whether the file began with a byte order mark, which is not in the text. */
      readonly wasMarked: boolean
      readonly flaw?: undefined
    }
  | UnreadableFile

const NOT_UTF_8 =
  'names a file that is not in UTF-8. Windows PowerShell 5 writes UTF-16, except with: … | Out-File -Encoding ascii FILE'

/** Decodes the bytes of a file. */
export function decodeFile(bytes: Buffer): FileText {
  try {
    const { TextDecoder } = nodeUtil()
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes) // drops the byte order mark
    if (!text.includes('\0')) return { text, wasMarked: bytes.indexOf('\uFEFF') === 0 }
  } catch {
    // Not UTF-8.
  }
  return { flaw: { kind: 'unavailable', reason: NOT_UTF_8 } }
}

/** A secret without the line breaks at its end, which do not belong to it. */
export function withoutLineBreak(secret: string): string {
  return secret.replace(/[\r\n]+$/, '')
}

/** The text of a file that a secret or an assertion is alone in. The line break at its end does not belong to it. */
export function decodeSecretFile(bytes: Buffer): FileText {
  const file = decodeFile(bytes)
  if (file.flaw !== undefined) return file
  const text = withoutLineBreak(file.text)
  return text === '' ? { flaw: { kind: 'unavailable', reason: 'names an empty file' } } : { ...file, text }
}

/** The result for a file whose reading failed. What may be the secret itself, in the wrong variable, is not shown. */
export function unreadableFile(path: string, { code }: NodeJS.ErrnoException): UnreadableFile {
  const reason = isSurelyPath(path)
    ? `names the file ${path}, which cannot be read (${code})`
    : `names a file that cannot be read (${code})`
  return { flaw: { kind: 'unavailable', reason } }
}

/** Whether a text begins with a folder that is there: a secret may begin with a slash, and contain more, as base64 does. */
function isSurelyPath(text: string): boolean {
  const [folder] = /^(?:[a-z]:)?[\\/]*[^\\/]+[\\/]/i.exec(text) ?? []
  return folder !== undefined && exists(folder)
}

/** Whether something is at a path. Where the program may not look, `existsSync` throws: Node.js' permission model. */
export function exists(path: string): boolean {
  try {
    return existsSync(path)
  } catch {
    return false
  }
}
