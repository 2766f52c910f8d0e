/** `merchant-auth token`: the access token on stdout, for scripts, which may share it in a store. */

import { storeFailureOf } from '../advice/store.ts'
import { ConfigurationError, type Problem } from '../base/errors.ts'
import { tokenEndpoint } from '../environment/environment.ts'
import type { TokenProviderOptions } from '../options/options.ts'
import { prepareStore } from '../options/store-location.ts'
import { STORE_VARIABLE } from '../options/variables.ts'
import { UNREADABLE } from '../store/token-store.ts'
import { createTokenProvider } from '../token/client-credentials-provider.ts'
import type { TokenProvider } from '../token/provider.ts'
import type { AccessToken } from '../token/request/access-token.ts'
import { type Command, EXIT, parseFlags, UsageError } from './command.ts'
import { watchConnection } from './connection.ts'
import { diagnose, told } from './diagnosis.ts'
import {
  HEADER_FLAGS,
  optionsFrom,
  readHeader,
  readSources,
  SETTINGS_FLAGS,
  SETTINGS_HELP,
  unreadDotenv,
} from './settings.ts'
import { INSTALL_CLIENT, NO_CLIENT, type OpenedStore, openStore } from './store.ts'
import { complain, Redactor } from './terminal.ts'

const FLAGS = {
  ...SETTINGS_FLAGS,
  header: { type: 'boolean' },
  ...HEADER_FLAGS,
  json: { type: 'boolean' },
  'min-validity': { type: 'string', default: '60' },
  refresh: { type: 'boolean' },
} as const

export const tokenCommand: Command = {
  flags: FLAGS,
  help: `Usage: npx merchant-auth token [--header | --json] [--store DIRECTORY] [flags]

Prints an access token on stdout, and nothing else. Errors go to stderr, with
the exit codes of npx merchant-auth check. It cannot use the option fetch of a
program.

  --header             print the header line: Authorization: Bearer …
  --header-name NAME   header that carries the token; implies --header
  --scheme SCHEME      scheme before the token, --scheme= for none; implies
                       --header
  --json               print JSON: { accessToken, tokenType, scope, expiresAt
                       (ms since 1970), expiresInSeconds }
  --store DIRECTORY    share the token, encrypted, in a directory, or in Redis:
                       redis://… (npm install redis)
  --min-validity SECONDS
                       replace a token of the store that is valid for less;
                       default: 60
  --refresh            request a new token, and replace the one in the store

${SETTINGS_HELP}

Example:
  npx merchant-auth token --header | curl -H @- https://api.example.com/orders
`,

  async run(args, context) {
    const { env, stdout, stderr, signal } = context
    const flags = parseFlags(args, FLAGS)
    const isHeader = flags.header || flags['header-name'] !== undefined || flags.scheme !== undefined
    if (isHeader && flags.json) throw new UsageError('--header and --json cannot be combined.')
    const { header, scheme } = readHeader(flags)
    if (!/^\d{1,9}$/.test(flags['min-validity']))
      throw new UsageError('--min-validity must be a whole number of seconds.')
    const minValidityMs = Number(flags['min-validity']) * 1000
    const print = (token: AccessToken): string => {
      if (flags.json) return jsonOf(token)
      return isHeader ? `${header}: ${scheme === '' ? '' : `${scheme} `}${token.value}` : token.value
    }
    let isStoreReported = false
    const reportStore = (code: string | undefined): void => {
      if (isStoreReported) return
      isStoreReported = true
      const kept = flags.refresh ? ', and the store may still have the one before' : ''
      const what = `the store failed${code ? ` (${code})` : ''}; this token is not shared${kept}`
      complain(stderr, what, { color: 'yellow', advice: told(storeFailureOf(code)) })
    }
    const redactor = new Redactor()
    let opened: OpenedStore | undefined
    let watched: ReturnType<typeof watchConnection> | undefined
    let tokens: TokenProvider | undefined
    let options: TokenProviderOptions | undefined
    let isStale = false
    try {
      const sources = await readSources(flags, { env, signal, locate: prepareStore })
      const { secret, location } = sources
      options = optionsFrom(sources)
      redactor.secrets.add(secret)
      if (flags.refresh && location === undefined) complain(stderr, NO_STORE, { color: 'yellow' })
      opened = location?.kind && (await openStore(location, signal))
      if (opened?.kind === 'no-client') throw new ConfigurationError('The store cannot be used', [NO_REDIS])
      if (opened?.kind === 'failed' && !signal.aborted) reportStore(opened.code)
      watched = watchConnection(tokenEndpoint(options.environment), env, redactor.show)
      tokens = createTokenProvider({
        ...options,
        ...(opened?.kind === 'open' && { store: opened.store }),
        refreshAheadMs: 0, // the process ends before a background refresh would
        onEvent: (event) => {
          if (event.type === 'store-failed' && event.code !== UNREADABLE) reportStore(event.code)
          if (event.type !== 'token-acquired') return
          const { source, remainsMs, lifetimeMs } = event
          isStale = source === 'store' && remainsMs < Math.min(minValidityMs, lifetimeMs / 2)
        },
      })
      let token = await tokens.getToken({ signal, forceRefresh: flags.refresh })
      // If that fails, the one of the store is still valid.
      if (isStale) token = await tokens.getToken({ signal, forceRefresh: true }).catch(() => token)
      signal.throwIfAborted()
      stdout.write(`${print(token)}\n`)
      return flags.refresh && isStoreReported ? EXIT.store : EXIT.ok
    } catch (error) {
      if (signal.aborted) return EXIT.unexpected
      const diagnosis = diagnose(error, {
        connection: watched?.connection,
        unread: unreadDotenv('token', flags),
        options,
      })
      if (diagnosis === undefined) throw error
      complain(stderr, diagnosis.finding.text, diagnosis.finding)
      return diagnosis.exitCode
    } finally {
      watched?.stop()
      await tokens?.close()
      if (opened?.kind === 'open') opened.close()
    }
  },
}

const NO_STORE =
  'no store is set, so no other process gets this token. If the service names its store in code, pass --store'
const NO_REDIS: Problem = {
  option: STORE_VARIABLE,
  kind: 'unavailable',
  reason: `${NO_CLIENT}: ${INSTALL_CLIENT}`,
}

function jsonOf({ value, tokenType, scope, expiresAt }: AccessToken): string {
  const expiresInSeconds = Math.max(0, Math.floor((expiresAt - Date.now()) / 1000))
  return JSON.stringify({ accessToken: value, tokenType, scope, expiresAt, expiresInSeconds }, null, 2)
}
