/** How an environment of the sandbox behaves, and the check of everything that a test passes to the sandbox. */
import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import * as z from 'zod/mini'
import { ConfigurationError } from '../base/errors.ts'
import { authMethod, fn, headerName, ms, parse, schemeName, strict } from '../base/schema.ts'
import { tokenPathFlaw } from '../environment/environment.ts'
import { isQuota } from './quota.ts'
import type { SandboxClient, SandboxOptions, SandboxSettings } from './types.ts'

export const DEFAULT_SETTINGS: SandboxSettings = {
  lifetimeSeconds: 3600,
  tokenLatencyMs: 0,
  apiLatencyMs: 0,
  rejectAllTokens: false,
  header: 'Authorization',
  scheme: 'Bearer',
  quota: '',
  quotaCountsRefused: false,
  quotaHeaders: true,
  assertionKey: undefined,
  tokenParameters: [],
}

const LIFETIME = 'must be a whole number of seconds from 1 to 2147483647'
const QUOTA = "must be a quota such as '10/h,50/d'"
const BOOLEAN = 'must be true or false'
const KEY = 'must be a public key, as PEM text or as a JWK'
const PARAMETERS = 'must be a list of names'
const DURATION = 'must be a number of milliseconds from 0 to 2147483647'

export const durationMs: z.ZodMiniType<number> = ms(0, DURATION)

const settingShapes = {
  lifetimeSeconds: z.int(LIFETIME).check(z.gte(1, LIFETIME), z.lte(2 ** 31 - 1, LIFETIME)),
  tokenLatencyMs: durationMs,
  apiLatencyMs: z.union([durationMs, fn<() => number>('')], `${DURATION}, or a function that returns one`),
  rejectAllTokens: z.union(
    [z.boolean(), z.array(z.enum(['merchant', 'in-store']))],
    "must be true, false or a list of 'merchant' and 'in-store'",
  ),
  header: headerName,
  scheme: schemeName,
  quota: z.string(QUOTA).check(z.refine(isQuota, QUOTA)),
  quotaCountsRefused: z.boolean(BOOLEAN),
  quotaHeaders: z.boolean(BOOLEAN),
  assertionKey: z.custom<NonNullable<SandboxSettings['assertionKey']>>(isPublicKey, KEY),
  tokenParameters: z.array(z.string(PARAMETERS), PARAMETERS),
}

function isPublicKey(value: unknown): boolean {
  try {
    publicKeyOf(value as NonNullable<SandboxSettings['assertionKey']>)
    return true
  } catch {
    return false
  }
}

/** The key of a text in PEM format, or of a JWK. */
export function publicKeyOf(key: NonNullable<SandboxSettings['assertionKey']>): KeyObject {
  return createPublicKey(typeof key === 'string' ? key : { key: key as JsonWebKey, format: 'jwk' })
}

const shape = z.partial(strict(settingShapes))

const HOST = 'must be the name or the address of a host'
const CLIENTS = 'must be a list of at least one client'
const CREDENTIAL = 'must be a non-empty string'
const credential = z.string(CREDENTIAL).check(z.minLength(1, CREDENTIAL))
const haveOwnIds = (clients: readonly SandboxClient[]): boolean =>
  new Set(clients.map(({ clientId }) => clientId)).size === clients.length

const PATH = String(tokenPathFlaw(undefined)?.reason)
const PORT = 'must be a port from 0 to 65535'
const port = z.optional(z.int(PORT).check(z.gte(0, PORT), z.lte(65_535, PORT)))
const optionsShape = z.partial(
  strict({
    ...settingShapes,
    ports: strict({ production: port, test: port }),
    host: z.string(HOST).check(z.minLength(1, HOST)),
    clients: z
      .array(strict({ clientId: credential, clientSecret: credential }), CLIENTS)
      .check(z.minLength(1, CLIENTS), z.refine(haveOwnIds, 'must have different client ids')),
    tokenPath: z.custom<string>((path) => path !== '' && tokenPathFlaw(path) === undefined, PATH),
    tokenEndpointAuthMethod: authMethod,
    sharedApiUrl: z.boolean(BOOLEAN),
    onRequest: fn<NonNullable<SandboxOptions['onRequest']>>('must be a function'),
  }),
)

/** The options of `startSandbox`, if they are valid. */
export function checkedOptions(options: unknown): SandboxOptions {
  return checked('The options of the sandbox', 'options', optionsShape, options) as SandboxOptions
}

/** The settings with the changes made. A change to undefined keeps the setting. */
export function changedSettings(settings: SandboxSettings, changes: unknown): SandboxSettings {
  const given = checked('The settings of the sandbox', 'settings', shape, changes)
  const changed = Object.entries(given).filter(([, value]) => value !== undefined)
  return { ...settings, ...Object.fromEntries(changed) }
}

/**
 * The value, if it has the shape.
 *
 * @param what what cannot be used otherwise, for the message: `The settings of the sandbox`
 * @param name the option's name, for problems with the value as a whole
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every problem
 */
export function checked<T>(what: string, name: string, shape: z.ZodMiniType<T>, value: unknown): T {
  const { data, problems } = parse(shape, value, name)
  if (data === undefined) throw new ConfigurationError(`${what} cannot be used`, problems)
  return data
}
