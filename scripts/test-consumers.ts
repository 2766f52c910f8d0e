/**
 * Runs the projects of test/consumers, which use the packed package as CommonJS projects do: TypeScript with
 * `module: commonjs`, also with `lib` ES2020, Jest without flags, ts-jest, Next.js, generated clients, a handler of AWS
 * Lambda, and bundles of esbuild and webpack. NestJS and Hono are ES modules. The manual shows some of their files. Workspaces would link the
 * sources, and find packages of this repository that users do not have.
 *
 * npm run test:consumers
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { install, output, pack, root } from './packed.ts'

/** What each project runs, one program after the other. The projects run at the same time. */
const PROJECTS = {
  'TypeScript with module: commonjs, bundles, and AWS Lambda': [
    'node_modules/typescript/bin/tsc -p typescript',
    'typescript/main.js',
    'node_modules/typescript/bin/tsc -p typescript-es2020',
    'typescript-es2020/main.js',
    'bundles/build.js ../bundled',
    'lambda/main.js',
  ],
  'NestJS and Hono': [
    'node_modules/typescript/bin/tsc -p nest',
    'nest/main.js',
    'node_modules/typescript/bin/tsc -p hono',
    'hono/main.js',
  ],
  'Next.js': ['next/main.mts'],
  'Generated clients': [
    'node_modules/@hey-api/openapi-ts/bin/run.js -f clients/openapi-ts.config.js --silent',
    'node_modules/typescript/bin/tsc -p clients',
    'clients/main.js',
  ],
  'Jest and ts-jest': ['node_modules/jest/bin/jest.js --ci --silent --projects jest typescript'],
}

const folder = mkdtempSync(join(tmpdir(), 'merchant-auth-consumers-'))
try {
  const project = join(folder, 'project')
  cpSync(join(root, 'test/consumers'), project, {
    recursive: true,
    filter: (path) => !path.endsWith('node_modules'),
  })
  // Other frameworks use the module of Next.js without its first line, as docs/frameworks.md says.
  const module = readFileSync(join(project, 'next/lib/merchant.ts'), 'utf8')
  writeFileSync(join(project, 'hono/merchant.ts'), module.replace("import 'server-only'\n", ''))
  mkdirSync(join(folder, 'bundled')) // outside of the project: nothing is installed there
  cpSync(join(root, 'examples/recipes/lambda'), join(project, 'lambda'), { recursive: true })
  const { tarball } = await pack(folder)
  await install(project, [tarball, '--ignore-scripts'])
  const runs = Object.entries(PROJECTS).map(async ([name, programs]) => {
    for (const program of programs)
      console.log((await output(project, [process.execPath, ...program.split(' ')])).trim())
    console.log(`✓ ${name}`)
  })
  const failed = (await Promise.allSettled(runs)).filter((run) => run.status === 'rejected')
  for (const { reason } of failed) console.error(reason)
  process.exitCode = failed.length === 0 ? 0 : 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
