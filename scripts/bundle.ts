/**
 * Bundles the entries as ES modules and as CommonJS, with the small packages that they need, and lists those packages:
 * their licenses, an SBOM in CycloneDX's format, and `inlinedDependencies` in package.json.
 */
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type OutputChunk, type OutputOptions, rolldown } from 'rolldown'
import packageJson from '../package.json' with { type: 'json' }
import { reachableFrom } from './check-package/reachable.ts'

/** A package whose code is in dist. */
interface Bundled {
  readonly folder: string
  readonly name: string
  readonly version: string
  readonly license: string
}

const root = fileURLToPath(new URL('..', import.meta.url))
const entries = Object.values(packageJson.exports).flatMap((entry) =>
  typeof entry === 'object' ? entry['module-sync'] : [],
)
const peers = Object.keys(packageJson.peerDependencies)

/** Code that entries share, in chunks with names of their own: stack traces show them. */
const GROUPS = [
  { name: 'zod', test: /node_modules[\\/]zod[\\/]/ },
  { name: 'jose', test: /node_modules[\\/]jose[\\/]/ },
  { name: 'errors', test: /src[\\/]base[\\/](?:errors|clock|similar-name)\.ts$/ },
  { name: 'attach', test: /src[\\/]attach[\\/](?:admit|authorize|body|headers)\.ts$/ },
]

const modules = await bundle([...entries, ...Object.values(packageJson.bin)], peers, {
  format: 'esm',
  sourcemap: true,
  entryFileNames: '[name].js',
  chunkFileNames: 'shared/[name].js',
})
// Jest's jsdom environment has none of these globals.
const TEXT_CODERS: Record<string, [string, string]> = {
  TextDecoder: ['node:util', 'TextDecoder'],
  TextEncoder: ['node:util', 'TextEncoder'],
}
// For tools that cannot require ES modules.
const commonJs = await bundle(entries, peers, {
  format: 'cjs',
  entryFileNames: '[name].cjs',
  chunkFileNames: 'shared/[name].cjs',
})
const bundled = packagesOf([...modules, ...commonJs])
writeLicenses()
writeSbom()
writeInlinedDependencies()
tidyDeclarations()

/** Writes a build, and returns the modules whose code is in it. */
async function bundle(
  files: readonly string[],
  external: readonly string[],
  output: OutputOptions,
): Promise<string[]> {
  const build = await rolldown({
    cwd: root,
    input: Object.fromEntries(files.map((file) => [nameOf(file), join(root, 'src', `${nameOf(file)}.ts`)])),
    platform: 'node',
    transform: { inject: output.format === 'cjs' ? TEXT_CODERS : {} },
    external: [/^node:/, ...external.map((name) => new RegExp(`^${name}(/|$)`))],
    onLog(level, log) {
      if (level === 'warn') throw new Error(log.message)
    },
  })
  const written = await build.write({
    ...output,
    dir: join(root, 'dist'),
    codeSplitting: { groups: GROUPS },
  })
  await build.close()
  const chunks = written.output.filter((one): one is OutputChunk => one.type === 'chunk')
  return chunks.flatMap((chunk) =>
    Object.entries(chunk.modules).flatMap(([id, { renderedLength }]) => (renderedLength > 0 ? [id] : [])),
  )
}

/** `./dist/attach/axios/index.js` is `attach/axios/index`. */
function nameOf(file: string): string {
  return file.replace(/^(?:\.\/)?dist\//, '').replace(/\.js$/, '')
}

function packagesOf(ids: readonly string[]): Bundled[] {
  const folders = ids.flatMap((id) => /^.*node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(id)?.[0] ?? [])
  return [...new Set(folders)]
    .map((folder) => {
      const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
      return { folder, name, version, license }
    })
    .sort((one, other) => (one.name < other.name ? -1 : 1))
}

/** Their licenses require that their text accompanies the code. */
function writeLicenses(): void {
  const texts = bundled.map(({ folder, name, version, license }) => {
    const [file] = globSync('{LICENSE,license,LICENCE}*', { cwd: folder })
    if (file === undefined) throw new Error(`${name} has no license text`)
    return `## ${name} ${version} (${license})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
  })
  const title = '# Licenses of the packages that parts of this one are built from\n'
  writeFileSync(join(root, 'THIRD-PARTY-LICENSES.md'), [title, ...texts].join('\n'))
}

/** The same bundles give the same file: it has no date and no serial number. */
function writeSbom(): void {
  const component = ({ name, version, license }: Omit<Bundled, 'folder'>) => {
    const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
    return { type: 'library', 'bom-ref': purl, name, version, licenses: [{ license: { id: license } }], purl }
  }
  const own = component(packageJson)
  const components = bundled.map(component)
  const sbom = {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: own },
    components,
    dependencies: [{ ref: own['bom-ref'], dependsOn: components.map((one) => one['bom-ref']) }],
  }
  writeFileSync(join(root, 'dist/sbom.cdx.json'), `${JSON.stringify(sbom, null, 2)}\n`)
}

/** A list that is out of date is replaced, but not in CI, where nobody would commit it. */
function writeInlinedDependencies(): void {
  const inlinedDependencies = Object.fromEntries(bundled.map(({ name, version }) => [name, version]))
  if (JSON.stringify(inlinedDependencies) === JSON.stringify(packageJson.inlinedDependencies)) return
  if (process.env['CI'])
    throw new Error('inlinedDependencies in package.json is out of date: run npm run build')
  const path = join(root, 'package.json')
  const list = JSON.stringify({ inlinedDependencies }, null, 2).slice(1, -2).trimStart()
  writeFileSync(path, readFileSync(path, 'utf8').replace(/"inlinedDependencies": {[^}]*}/, list))
  console.log('package.json: inlinedDependencies is now what is in dist')
}

/**
 * Removes declarations that no public one refers to: they may name packages that users do not have. The others get a
 * copy for callers of the CommonJS build: TypeScript tells the two kinds of module apart by the extension.
 */
function tidyDeclarations(): void {
  const { files } = reachableFrom(root)
  for (const path of globSync('dist/**/*.d.ts', { cwd: root })) {
    const file = join(root, path)
    if (files.has(path.replaceAll('\\', '/'))) {
      // tsc keeps the extension .ts in imports, which not every tool resolves to a declaration.
      const text = readFileSync(file, 'utf8')
      for (const kind of ['', 'c'])
        writeFileSync(
          file.replace(/ts$/, `${kind}ts`),
          text.replace(/((?:from |import\()'\.[^']+)\.[jt]s'/g, `$1.${kind}js'`),
        )
    } else rmSync(file)
  }
}
