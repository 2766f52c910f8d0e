/** What is installed and what is loaded for each client. */
import type { Contender } from '../contender.ts'
import { contenders } from '../contenders/index.ts'
import { type Bundled, bundle, sharesOf } from '../measure/bundle.ts'
import { type Installed, inFolder, install, packOurs, versionOf } from '../measure/install.ts'
import { eachOf, progress } from '../measure/pool.ts'
import { shown, shownBytes } from '../measure/stats.ts'
import { isCheck, type Mark, runAlone, type Section } from '../section.ts'

const LIMIT = 12_000
/** Packages that are part of what is published. */
const PARTS = ['zod', 'p-retry', 'async-mutex', 'p-memoize']
const WIDTH = 3
const MARKED = 'attachAuth'

/** What a user's own module imports; `used` keeps a bundler from leaving it out. */
const SOURCES: Readonly<Record<string, string>> = {
  attachAuth:
    "import { createTokenProvider } from 'merchant-auth'; import { attachAuth } from 'merchant-auth/axios'; globalThis.used = [createTokenProvider, attachAuth]",
  createAuthInterceptor:
    "import { createTokenProvider } from 'merchant-auth'; import { createAuthInterceptor } from 'merchant-auth/axios'; globalThis.used = [createTokenProvider, createAuthInterceptor]",
  createAuthFetch:
    "import { createAuthFetch, createTokenProvider } from 'merchant-auth'; globalThis.used = [createTokenProvider, createAuthFetch]",
  createAuthDispatch:
    "import { createTokenProvider } from 'merchant-auth'; import { createAuthDispatch } from 'merchant-auth/undici'; globalThis.used = [createTokenProvider, createAuthDispatch]",
  'axios-token-interceptor':
    "import tokenProvider from 'axios-token-interceptor'; import { clientCredentials } from 'axios-oauth-client'; globalThis.used = [tokenProvider, clientCredentials]",
  'axios-auth-refresh':
    "import { createAuthRefresh } from 'axios-auth-refresh'; globalThis.used = createAuthRefresh",
  '@badgateway/oauth2-client':
    "import { OAuth2Client, OAuth2Fetch } from '@badgateway/oauth2-client'; globalThis.used = [OAuth2Client, OAuth2Fetch]",
  'simple-oauth2': "import { ClientCredentials } from 'simple-oauth2'; globalThis.used = ClientCredentials",
  'openid-client':
    "import { Configuration, clientCredentialsGrant, fetchProtectedResource } from 'openid-client'; globalThis.used = [Configuration, clientCredentialsGrant, fetchProtectedResource]",
  auth0: "import { TokenProvider } from 'auth0/management'; globalThis.used = TokenProvider",
  'google-auth-library': "import { OAuth2Client } from 'google-auth-library'; globalThis.used = OAuth2Client",
  '@azure/core-rest-pipeline':
    "import { bearerTokenAuthenticationPolicy, createEmptyPipeline, createPipelineRequest } from '@azure/core-rest-pipeline'; globalThis.used = [bearerTokenAuthenticationPolicy, createEmptyPipeline, createPipelineRequest]",
}

interface Row {
  readonly name: string
  readonly installed: Installed | undefined
  /** Undefined for a floor: axios and undici are not bundled. */
  readonly bundled: Bundled | undefined
}

export default async function size(): Promise<Section> {
  const chosen = contenders.filter(({ name, kind, packages }) =>
    isCheck ? name === MARKED : kind !== 'naive' && packages.length > 0,
  )
  const rows = await inFolder(async (folder) => {
    const ours = isCheck ? '' : await packOurs(folder)
    return await eachOf(chosen, WIDTH, (contender) => rowOf(contender, ours))
  })
  return sectionOf(rows, await sharesOf(PARTS))
}

async function rowOf({ name, kind, packages }: Contender, ours: string): Promise<Row> {
  progress(name)
  const specOf = async (one: string): Promise<string> =>
    one === 'merchant-auth' ? ours : `${one}@${await versionOf(one)}`
  return {
    name,
    installed: isCheck ? undefined : await install(await Promise.all(packages.map(specOf))),
    bundled: kind === 'floor' ? undefined : await bundle(sourceOf(name)),
  }
}

function sourceOf(name: string): string {
  const source = SOURCES[name]
  if (source === undefined) throw new Error(`What a user of ${name} imports is not known here`)
  return source
}

function sectionOf(rows: readonly Row[], shares: ReadonlyMap<string, number>): Section {
  return {
    title: 'Size',
    intro:
      'What `npm install` puts on the disk for each client, and what a program that uses it has to load: bundled and ' +
      'minified by esbuild, and compressed by gzip. Parts that are imported later, and perhaps never, are in the last ' +
      'column only. axios and undici are left out of the bundles: their users have them anyway.',
    columns: [
      'Client',
      'packages',
      'on the disk',
      'bundled',
      'and gzipped',
      'gzipped, with what is loaded later',
    ],
    rows: rows.map(({ name, installed, bundled }) => [
      name,
      installed ? shown(installed.packages) : '',
      installed ? shownBytes(installed.bytes) : '',
      ...(bundled ? [bundled.minified, bundled.gzipped, bundled.gzippedInAll].map(shownBytes) : ['', '', '']),
    ]),
    notes: [
      'The packages on the disk are those that a user installs, with all that they depend on: axios is among them for each ' +
        'client of axios, as its floor shows, and undici for each of undici.',
    ],
    marks: rows.flatMap(({ name, bundled }) =>
      name === MARKED && bundled ? [markOf(name, bundled, shares)] : [],
    ),
  }
}

function markOf(name: string, bundled: Bundled, shares: ReadonlyMap<string, number>): Mark {
  const inIt = [...shares].map(([part, bytes]) => `${part} ${shownBytes(bytes)}`)
  return {
    name: `${name}: bytes to load at first, bundled and gzipped`,
    value: bundled.gzipped,
    limit: LIMIT,
    room: 1,
    mayMiss: `it holds, measured by leaving each out: ${inIt.join(', ')}`,
  }
}

await runAlone(import.meta, size)
