/** What is installed and what is loaded for each client. */
import { existsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { filesOf, readManifest } from '../../scripts/packed.ts'
import { contenders } from '../contenders/index.ts'
import { firstLoad } from '../first-load.ts'
import { shown, shownBytes } from '../numbers.ts'
import { runPart, type Section } from '../part.ts'

const BENCH = fileURLToPath(new URL('..', import.meta.url))

/** What a user's own module imports. */
const IMPORTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  attachAuth: { 'merchant-auth': 'createTokenProvider', 'merchant-auth/axios': 'attachAuth' },
  createAuthInterceptor: {
    'merchant-auth': 'createTokenProvider',
    'merchant-auth/axios': 'createAuthInterceptor',
  },
  createAuthFetch: { 'merchant-auth': 'createTokenProvider, createAuthFetch' },
  createAuthDispatch: {
    'merchant-auth': 'createTokenProvider',
    'merchant-auth/undici': 'createAuthDispatch',
  },
  'axios-token-interceptor': {
    'axios-token-interceptor': 'default',
    'axios-oauth-client': 'clientCredentials',
  },
  'axios-auth-refresh': { 'axios-auth-refresh': 'createAuthRefresh' },
  '@badgateway/oauth2-client': { '@badgateway/oauth2-client': 'OAuth2Client, OAuth2Fetch' },
  'undici-oidc-interceptor': { 'undici-oidc-interceptor': 'createOidcInterceptor' },
  'simple-oauth2': { 'simple-oauth2': 'ClientCredentials' },
  'openid-client': { 'openid-client': 'Configuration, clientCredentialsGrant, fetchProtectedResource' },
  auth0: { 'auth0/management': 'TokenProvider' },
  'google-auth-library': { 'google-auth-library': 'OAuth2Client' },
  '@azure/core-rest-pipeline': {
    '@azure/core-rest-pipeline':
      'bearerTokenAuthenticationPolicy, createEmptyPipeline, createPipelineRequest',
  },
}

/** The folders of these packages and of all that they depend on. */
function foldersOf(packages: readonly string[]): string[] {
  const folders = new Set<string>()
  const waiting = packages.map((name) => ({ name, from: BENCH }))
  for (const { name, from } of waiting) {
    let folder = from
    while (!existsSync(join(folder, 'node_modules', name, 'package.json'))) {
      if (folder === dirname(folder)) throw new Error(`${name} is not installed, and ${from} needs it`)
      folder = dirname(folder)
    }
    const found = join(folder, 'node_modules', name)
    if (folders.has(found)) continue
    folders.add(found)
    waiting.push(
      ...Object.keys(readManifest(found).dependencies ?? {}).map((next) => ({ name: next, from: found })),
    )
  }
  return [...folders]
}

async function size(): Promise<readonly Section[]> {
  const rows: string[][] = []
  for (const { name, kind, packages } of contenders) {
    if (kind === 'handwritten' || packages.length === 0) continue
    const folders = foldersOf(packages)
    const bytes = folders
      .flatMap((folder) => filesOf(folder).map((path) => statSync(join(folder, path)).size))
      .reduce((sum, one) => sum + one, 0)
    rows.push([name, shown(folders.length), shownBytes(bytes), ...(await loadedBy(name))])
  }
  return [
    {
      title: 'Size',
      intro:
        'What `npm install` puts on the disk for each client, and what a program that uses it has to load: bundled, ' +
        'minified, and compressed by gzip. What is imported later, and perhaps never, is in the last ' +
        'column. axios and undici are left out of the bundles: their users have them anyway.',
      columns: ['Client', 'packages', 'on the disk', 'bundled', 'and gzipped', 'loaded later, gzipped'],
      rows,
      notes: [
        'The packages on the disk are those that a user installs, with all that they depend on: axios for each client of ' +
          'axios, and undici for each of undici.',
      ],
      checks: [],
    },
  ]
}

async function loadedBy(name: string): Promise<string[]> {
  const imports = IMPORTS[name]
  if (imports === undefined) return ['', '', '']
  const code = Object.entries(imports).map(([from, names]) => `export { ${names} } from '${from}'`)
  const loaded = await firstLoad({ folder: BENCH, code: code.join('\n'), external: ['axios', 'undici'] })
  return [loaded.firstBytes, loaded.firstGzippedBytes, loaded.laterGzippedBytes].map(shownBytes)
}

await runPart(import.meta, size)
