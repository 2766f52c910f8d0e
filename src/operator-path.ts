/** Paths that operators write into variables, where no shell expands or unquotes them. */
import { fileURLToPath } from 'node:url'
import type { Flaw } from './errors.ts'

/** A path, or why a text is none that can be used. */
export type OperatorPath =
  | { readonly path: string; readonly flaw?: undefined }
  | { readonly path?: undefined; readonly flaw: Flaw }

const invalid = (reason: string): OperatorPath => ({ flaw: { kind: 'invalid', reason } })

/** The path in a text: as it is, or in `file:./tokens` and `file:///var/lib/tokens`. */
export function operatorPath(given: string): OperatorPath {
  const text = given.trim()
  if (/^["']|["']$/.test(text))
    return invalid('must not begin or end with a quote: docker and some tools keep quotes')
  const path = text.startsWith('file:') ? pathOfFileUrl(text) : text
  if (path === undefined) return invalid('must be a path, or a valid file URL')
  // ~, $NAME and ${NAME} of shells, %NAME% of cmd.exe, %d of systemd.
  if (/^~|\$|^%\w|%\w+%/.test(path))
    return invalid(
      'must not contain ~, $ or %, which only a shell or systemd replaces: write the path itself',
    )
  return { path }
}

function pathOfFileUrl(text: string): string | undefined {
  if (!text.startsWith('file://')) return text.slice('file:'.length)
  try {
    return fileURLToPath(text)
  } catch {
    return undefined
  }
}
