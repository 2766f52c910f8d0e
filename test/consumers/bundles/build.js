/** Bundles both programs and runs the bundles in a folder without dependencies: node build.js FOLDER */
const { execFileSync } = require('node:child_process')
const { join, resolve } = require('node:path')
const { promisify } = require('node:util')
const esbuild = require('esbuild')
const webpack = require('webpack')

const folder = resolve(process.argv[2])
const entry = join(__dirname, 'main.mjs')
/** The usual esbuild banner for axios in an ES module: parts of axios are CommonJS. */
const banner = "import { createRequire } from 'node:module'\nconst require = createRequire(import.meta.url)"
const bundle = (entryPoint, outfile, more) =>
  esbuild.build({
    entryPoints: [entryPoint],
    outfile: join(folder, outfile),
    bundle: true,
    platform: 'node',
    logLevel: 'warning',
    ...more,
  })

async function main() {
  await bundle(entry, 'esbuild.mjs', { format: 'esm', banner: { js: banner } })
  await bundle(entry, 'esbuild.cjs', { format: 'cjs' })
  await bundle(join(__dirname, '../typescript/main.js'), 'esbuild-required.cjs', { format: 'cjs' })
  const output = { path: folder, filename: 'webpack.cjs' }
  const stats = await promisify(webpack)({ entry, target: 'node', mode: 'production', output })
  if (stats.hasErrors()) throw new Error(stats.toString())
  for (const file of ['esbuild.mjs', 'esbuild.cjs', 'esbuild-required.cjs', 'webpack.cjs'])
    console.log(
      `${file}: ${execFileSync(process.execPath, [join(folder, file)], { cwd: folder })
        .toString()
        .trim()}`,
    )
}

main()
