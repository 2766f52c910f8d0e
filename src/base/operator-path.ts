/** Paths that operators write into variables and flags, where no shell may have expanded or unquoted them. */
import { fileURLToPath } from 'node:url'
import type { Flaw } from './errors.ts'

/** A path, or why a text is none that can be used. */
export type OperatorPath =
  | { readonly path: string; readonly flaw?: undefined }
  | { readonly path?: undefined; readonly flaw: Flaw }

/**
 * What only a shell, a service manager or an orchestrator replaces: `~`, `$NAME`, `${NAME}` and `$(NAME)`, `%NAME%` of cmd.exe,
 * `%d` of systemd. A share of Windows has a `$` at the end of its name.
 */
const REPLACED = /^~|\$[\w{(]|%\w+%|(?:^|[\\/])%[a-z](?![\w%])/i

/** What is wrong with a value of an operator's that is quoted. */
export const QUOTED = 'must not begin or end with a quote: docker and some other tools keep quotes'

/** Whether a tool has kept the quotes around a value, or one of them. */
export function isQuoted(text: string): boolean {
  return /^["']|["']$/.test(text)
}

/** The path in a text: as it is, or in `file:./tokens` and `file:///var/lib/tokens`. */
export function operatorPath(given: string): OperatorPath {
  const text = given.trim()
  if (isQuoted(text)) return invalid(QUOTED)
  const path = text.startsWith('file:') ? pathOfFileUrl(text) : text
  if (path === undefined || path === '') return invalid('must be a path, or a valid file URL')
  if (REPLACED.test(path))
    return invalid('must not contain ~, $NAME or %NAME, which nothing replaced: write the path itself')
  return { path }
}

function invalid(reason: string): OperatorPath {
  return { flaw: { kind: 'invalid', reason } }
}

function pathOfFileUrl(text: string): string | undefined {
  if (!text.startsWith('file://')) return text.slice('file:'.length)
  try {
    return fileURLToPath(text)
  } catch {
    return undefined
  }
}
