/**
 * How dist is built: the entries of package.json as ES modules and as CommonJS, with the small packages that they need,
 * their declarations, and of those packages the licenses and an SBOM. `npm sbom` and cyclonedx-npm read the lock file, which
 * cannot tell which development dependencies have code in dist.
 */
import { createRollupLicensePlugin } from 'rollup-license-plugin'
import { defineConfig, type UserConfig } from 'tsdown'
import packageJson from './package.json' with { type: 'json' }

/** A package whose code is in dist. */
interface Bundled {
  readonly name: string
  readonly version: string
  readonly license: string
  readonly licenseText: string | null
}

const entries = Object.values(packageJson.exports).flatMap((entry) =>
  typeof entry === 'object' ? entry['module-sync'] : [],
)

/**
 * The files of what entries share, by what is in them, together with all that it imports and that no file above has. They are few:
 * a further file costs Node.js more time than the code that a program does not use. Stack traces show their names.
 */
const SHARED: Readonly<Record<string, readonly string[]>> = {
  base: [
    'src/base/elapsed-time.ts',
    'src/base/errors.ts',
    'src/base/builtin-modules.ts',
    'src/base/node-version.ts',
    'src/base/redact.ts',
    'src/base/similar-name.ts',
    'src/store/operation-queue.ts',
    'src/store/token-store.ts',
  ],
  provider: [
    'src/base/schema.ts',
    'src/environment/environment.ts',
    'src/token/attached-provider.ts',
    'src/token/request/access-token.ts',
  ],
  jose: ['node_modules/jose/'],
  attach: ['src/attach/fetch.ts'],
  'file-store': ['src/store/file/entries.ts'],
  'client-credentials': ['src/token/client-credentials-provider.ts', 'src/options/from-env.ts'],
}

const groups = Object.entries(SHARED).map(([name, modules]) => ({
  name,
  test: (id: string) => modules.some((module) => id.replaceAll('\\', '/').includes(`/${module}`)),
}))

const common: UserConfig = {
  fixedExtension: false, // .js, as package.json has "type": "module"
  hash: false,
  target: false, // as the sources are written
  dts: { generator: 'oxc', entry: Object.values(sourcesOf(entries)) },
  deps: {
    onlyBundle: Object.keys(packageJson.inlinedDependencies),
    onlyImport: Object.keys(packageJson.peerDependencies),
  },
  checks: { legacyCjs: false, pluginTimings: false },
  failOnWarn: true,
  logLevel: 'warn',
}

export default defineConfig([
  {
    ...common,
    format: 'esm',
    entry: sourcesOf([...entries, ...Object.values(packageJson.bin)]),
    outputOptions: { chunkFileNames: 'shared/[name].js', codeSplitting: { groups } },
    plugins: [
      createRollupLicensePlugin({
        outputFilename: false,
        additionalFiles: { 'THIRD-PARTY-LICENSES.md': licenses, 'sbom.cdx.json': sbom },
      }),
    ],
  },
  {
    // For tools that cannot require ES modules.
    ...common,
    format: 'cjs',
    entry: sourcesOf(entries),
    inputOptions: {
      transform: {
        // Jest's jsdom environment has none of these globals.
        inject: { TextDecoder: ['node:util', 'TextDecoder'], TextEncoder: ['node:util', 'TextEncoder'] },
      },
    },
    outputOptions: {
      chunkFileNames: 'shared/[name].cjs',
      codeSplitting: { groups },
      comments: { jsdoc: false }, // those of the ES modules are the same
    },
  },
])

/** The sources of files in dist, by the names that the files have there. */
function sourcesOf(files: readonly string[]): Record<string, string> {
  const names = files.map((file) => file.replace(/^(?:\.\/)?dist\//, '').replace(/\.js$/, ''))
  return Object.fromEntries(names.map((name) => [name, `src/${name}.ts`]))
}

/** Their licenses require that their text accompanies the code. */
function licenses(bundled: readonly Bundled[]): string {
  const title = '# Licenses of the packages that parts of this one are built from\n'
  const texts = byName(bundled).map(({ name, version, license, licenseText }) => {
    if (licenseText === null) throw new Error(`${name} has no license text`)
    return `## ${name} ${version} (${license})\n\n${licenseText.trim()}\n`
  })
  return [title, ...texts].join('\n')
}

/** In CycloneDX's format. The same bundles give the same file: it has no date and no serial number. */
function sbom(bundled: readonly Bundled[]): string {
  const component = ({ name, version, license: id }: Omit<Bundled, 'licenseText'>) => {
    const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
    return { type: 'library', 'bom-ref': purl, name, version, licenses: [{ license: { id } }], purl }
  }
  const own = component(packageJson)
  const components = byName(bundled).map(component)
  const document = {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: own },
    components,
    dependencies: [{ ref: own['bom-ref'], dependsOn: components.map((one) => one['bom-ref']) }],
  }
  return `${JSON.stringify(document, null, 2)}\n`
}

function byName(bundled: readonly Bundled[]): Bundled[] {
  return bundled.toSorted((one, other) => (one.name < other.name ? -1 : 1))
}
