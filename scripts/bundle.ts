/** Bundles the entries with the small packages that they need, and removes unreachable declarations. */
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type OutputChunk, rolldown } from 'rolldown'
import packageJson from '../package.json' with { type: 'json' }
import { reachableFrom } from './check-package/reachable.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const entries = [
  ...Object.values(packageJson.exports).flatMap((entry) => (typeof entry === 'object' ? entry.default : [])),
  ...Object.values(packageJson.bin),
]

/** Packages that users install themselves: dependencies and optional peers. */
const external = Object.keys({ ...packageJson.dependencies, ...packageJson.peerDependencies }).map(
  (name) => new RegExp(`^${name}(/|$)`),
)

/** Code that entries share, in chunks with names of their own: stack traces show them. */
const GROUPS = [
  { name: 'zod', test: /node_modules[\\/]zod[\\/]/ },
  { name: 'errors', test: /src[\\/](?:errors|clock)\.ts$/ },
  { name: 'attach', test: /src[\\/]attach[\\/](?:authorize|body|headers)\.ts$/ },
]

const chunks = await bundle()
writeLicenses(packagesIn(chunks))
tidyDeclarations()

async function bundle(): Promise<OutputChunk[]> {
  const bundled = await rolldown({
    cwd: root,
    input: Object.fromEntries(entries.map((file) => [nameOf(file), sourceOf(file)])),
    platform: 'node',
    external: [/^node:/, ...external],
    onLog(level, log) {
      if (level === 'warn') throw new Error(log.message)
    },
  })
  const { output } = await bundled.write({
    dir: join(root, 'dist'),
    chunkFileNames: 'shared/[name].js',
    codeSplitting: { groups: GROUPS },
  })
  await bundled.close()
  return output.filter((one) => one.type === 'chunk')
}

/** `./dist/attach/axios.js` is `attach/axios`. */
function nameOf(file: string): string {
  return relative('dist', file).replace(/\.js$/, '')
}

function sourceOf(file: string): string {
  return join(root, 'src', `${nameOf(file)}.ts`)
}

/** The folders of the bundled packages, and of the packages that are part of those. */
function packagesIn(output: readonly OutputChunk[]): string[] {
  const modules = output.flatMap((chunk) =>
    Object.entries(chunk.modules).flatMap(([id, { renderedLength }]) => (renderedLength > 0 ? [id] : [])),
  )
  const folders = new Set(modules.flatMap((id) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []))
  for (const folder of folders) {
    const { dependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    for (const name of Object.keys(dependencies)) folders.add(join(root, 'node_modules', name))
  }
  return [...folders].sort()
}

/** Their licenses require that their text accompanies the code. */
function writeLicenses(packages: readonly string[]): void {
  const texts = packages.map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const [file] = globSync('{LICENSE,license,LICENCE}*', { cwd: folder })
    if (file === undefined) throw new Error(`${name} has no license text`)
    return `## ${name} ${version} (${license})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
  })
  const title = '# Licenses of the packages that parts of this one are built from\n'
  writeFileSync(join(root, 'THIRD-PARTY-LICENSES.md'), [title, ...texts].join('\n'))
}

/** Removes declarations that no public one refers to: they may name packages that users do not have. */
function tidyDeclarations(): void {
  const { files } = reachableFrom(root)
  for (const path of globSync('dist/**/*.d.ts', { cwd: root })) {
    const file = join(root, path)
    if (!files.has(path)) rmSync(file)
    // tsc keeps the extension .ts in imports, which not every tool resolves to a declaration.
    else writeFileSync(file, readFileSync(file, 'utf8').replace(/(from '\.[^']+)\.ts'/g, "$1.js'"))
  }
}
