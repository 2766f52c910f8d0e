/** A file of variables, such as `.env`, and what Node.js makes of it that its author may not expect. */
import { parseEnv } from 'node:util'
import { nameAfterMark, setVariables, VARIABLE_NAMES, type Variables } from '../options/variables.ts'
import { oneOf } from './command.ts'
import type { Finding } from './report.ts'

/** A file of variables that was read. */
export interface Dotenv {
  readonly path: string
  /** Its text, without the byte order mark. */
  readonly text: string
  readonly wasMarked: boolean
}

/** What is compared with the file. */
interface Context {
  /** The variables of the process. */
  readonly env: Variables
  /** The variables that are used: of flags, of the process, of the file. */
  readonly used: Variables
  /** Makes the path fit to be shown. */
  readonly show: (text: string) => string
}

/** What `check` warns about. No value is shown. */
export function dotenvWarnings(
  { path, text, wasMarked }: Dotenv,
  { env, used, show }: Context,
): Pick<Finding, 'text' | 'advice'>[] {
  const file = `the file ${show(path)}`
  const warnings: Pick<Finding, 'text' | 'advice'>[] = []
  const marked = wasMarked ? firstNameAfterMark(text) : undefined
  if (marked !== undefined)
    warnings.push({
      text: `${file} begins with a byte order mark, so node --env-file does not set ${show(marked)}`,
      advice:
        'Save it as UTF-8 without a byte order mark. Windows PowerShell 5 writes none with: … | Out-File -Encoding ascii FILE',
    })
  const inFile = setVariables(parseEnv(text))
  for (const name of VARIABLE_NAMES)
    if (used[name] === inFile[name] && isCut(name, text))
      warnings.push({
        text: `${name} is cut at its first # in ${file}, because it is not in quotes`,
        advice: `Write ${name}='…'.`,
      })
  for (const name of VARIABLE_NAMES)
    if (used[name] === inFile[name] && inFile[name]?.includes('$'))
      warnings.push({
        text:
          `${name} contains a $ in ${file}: Next.js, Vite, Nuxt, Docker Compose and dotenv-expand, but not Node.js, ` +
          'replace $NAME and similar in it',
        advice:
          name === 'MERCHANT_AUTH_CLIENT_SECRET'
            ? `If one of them reads this file, put the secret in a file of its own, which ${name}_FILE names.`
            : 'If one of them reads this file, set the variable elsewhere.',
      })
  const shell = setVariables(env)
  const overridden = VARIABLE_NAMES.filter((name) => {
    const [value, other] = [inFile[name], shell[name]]
    return value && other && other === used[name] && other.trim() !== value.trim()
  })
  if (overridden.length > 0)
    warnings.push({
      text: `${file} sets ${oneOf(overridden, 'and')} to other values than the shell, which takes precedence`,
      advice: `To use the file: unset ${overridden.join(' ')}`,
    })
  const late = READ_AT_START.filter((name) => inFile[name] && !shell[name])
  if (late.length > 0)
    warnings.push({
      text: `${file} sets ${oneOf(late, 'and')}, which Node.js reads when it starts: this command goes without`,
      advice: `Run: node --env-file=${show(path)} node_modules/merchant-auth/dist/cli/main.js check`,
    })
  return warnings
}

/** What decides how Node.js connects, which `node --env-file` sets in time. */
const READ_AT_START = ['NODE_OPTIONS', 'HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy']

/** The variable that `node --env-file` does not set, because it takes the byte order mark for part of its name. */
function firstNameAfterMark(text: string): string | undefined {
  const names = Object.keys(parseEnv(`\uFEFF${text}`)).map(nameAfterMark)
  return names.find((name) => name !== undefined)
}

/**
 * Whether the value of a variable ends at a `#` that was probably meant to be part of it: Node.js takes an unquoted `#` for
 * the beginning of a comment, also without white space before it.
 */
function isCut(name: string, text: string): boolean {
  const lines = [...text.matchAll(new RegExp(`^[ \\t]*(?:export[ \\t]+)?${name}[ \\t]*=(.*)$`, 'gm'))]
  const value = lines.at(-1)?.[1] ?? '' // the last one counts
  return /^(?:\s*(?!["'`\s])[^#]*[^#\s])?#/.test(value)
}
