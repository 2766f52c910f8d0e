/** `merchant-auth token`: the access token on stdout, for scripts. */
import { tokenEndpoint } from '../environments.ts'
import type { AccessToken } from '../token/access-token.ts'
import { createTokenProvider } from '../token/provider.ts'
import type { AdviceContext } from './advice-network.ts'
import { readArguments, UsageError } from './arguments.ts'
import { watchConnection } from './connection.ts'
import { diagnose } from './diagnosis.ts'
import { Hiding } from './hiding.ts'
import { folded } from './report.ts'
import {
  HEADER_FLAGS,
  type Header,
  readHeader,
  readSettings,
  SETTINGS_FLAGS,
  SETTINGS_HELP,
  type Settings,
} from './settings.ts'
import { asciiJson, type Command, EXIT, paint, type Surroundings, widthOf } from './terminal.ts'
import { type OpenStore, openStore, STORE_VARIABLE } from './token-store.ts'

const FLAGS = {
  ...SETTINGS_FLAGS,
  ...HEADER_FLAGS,
  header: { type: 'boolean' },
  json: { type: 'boolean' },
  store: { type: 'string' },
} as const

export const tokenCommand: Command = {
  summary: 'prints the access token',
  help: `Prints the access token, and nothing else, on stdout. What goes wrong is said on stderr.

Usage: merchant-auth token [--header | --json] [--store URL] [flags]

  --header            the whole header line instead: Authorization: Bearer …
  --header-name NAME  the header that carries the token (Authorization); implies --header
  --scheme SCHEME     what stands before the token in it (Bearer); '' for the bare token; implies --header
  --json              a JSON object instead: { accessToken, tokenType, scope, expiresAt, expiresInSeconds }
  --store URL         a Redis URL (redis: or rediss:). The token is kept there, encrypted, and shared with all
                      who use the same store, so that a script that runs often asks for no new one. Needs the
                      package redis or ioredis. With a password in the URL, set ${STORE_VARIABLE} instead.


${SETTINGS_HELP}

Exit codes: 0 and a token; else nothing on stdout, and the codes of merchant-auth check --help.

Examples:
  curl -H "Authorization: Bearer $(merchant-auth token)" https://api.example.com/merchant/orders
  merchant-auth token --header | curl -H @- https://api.example.com/merchant/orders   # not in the process list
  merchant-auth token --store redis://localhost:6379 --json | jq -r .expiresInSeconds
`,

  async run(args, surroundings) {
    const values = readArguments(args, FLAGS)
    const isHeader =
      values.header === true || values['header-name'] !== undefined || values.scheme !== undefined
    if (isHeader && values.json === true) throw new UsageError('--header and --json exclude each other.')
    const header = readHeader(values)
    const printed = (token: AccessToken): string =>
      values.json === true ? jsonOf(token) : isHeader ? headerLine(token, header) : token.value
    const hiding = new Hiding()
    try {
      const settings = await readSettings(values, surroundings)
      const { clientSecret } = settings.options
      hiding.secrets.add(typeof clientSecret === 'string' ? clientSecret : await clientSecret())
      const store = await openStore(values.store ?? settings.variables[STORE_VARIABLE], surroundings)
      return await printToken(settings, { store, printed, hiding }, surroundings)
    } catch (error) {
      if (surroundings.signal.aborted) return EXIT.unexpected
      return complain(error, { host: '', connected: false }, surroundings)
    }
  },
}

interface Printing {
  readonly store: OpenStore | undefined
  readonly printed: (token: AccessToken) => string
  readonly hiding: Hiding
}

async function printToken(
  { options }: Settings,
  { store, printed, hiding }: Printing,
  surroundings: Surroundings,
): Promise<number> {
  const endpoint = tokenEndpoint(options.environment)
  const connection = watchConnection(endpoint, surroundings.env, hiding.shown)
  const tokens = createTokenProvider({
    ...options,
    refreshAheadMs: 0, // the process is over before a renewal in the background is
    ...(store === undefined ? {} : { store: store.store }),
    onEvent: (event) => store?.onEvent(event),
  })
  try {
    const token = await tokens.getToken({ signal: surroundings.signal })
    surroundings.stdout.write(`${printed(token)}\n`)
    return EXIT.ok
  } catch (error) {
    if (surroundings.signal.aborted) return EXIT.unexpected
    return complain(error, connection.context(), surroundings)
  } finally {
    connection.stop()
    await tokens.close()
    store?.close()
  }
}

function complain(error: unknown, context: AdviceContext, { stderr }: Surroundings): number {
  const diagnosis = diagnose(error, context)
  if (diagnosis === undefined) throw error
  const { text, advice, exitCode } = diagnosis
  stderr.write(`${paint('red', 'merchant-auth:', stderr)} ${text.replaceAll('\n', '\n  ')}\n`)
  const folding = { indent: 2, width: widthOf(stderr) }
  if (advice) stderr.write(`${folded(`→ ${advice}`, folding)}\n`)
  return exitCode
}

function headerLine({ value }: AccessToken, { header, scheme }: Header): string {
  return `${header}: ${scheme === '' ? '' : `${scheme} `}${value}`
}

function jsonOf({ value, tokenType, scope, expiresAt }: AccessToken): string {
  const expiresInSeconds = Math.max(0, Math.floor((expiresAt - Date.now()) / 1000))
  return asciiJson(
    { accessToken: value, tokenType, ...(scope === undefined ? {} : { scope }), expiresAt, expiresInSeconds },
    2,
  )
}
