/** Where the figures come from: the machine, and the version of everything that was measured. */
import { readFileSync } from 'node:fs'
import { cpus, release, totalmem, type } from 'node:os'
import { contenders } from './contenders/index.ts'

export function machine(): readonly (readonly [string, string])[] {
  return [
    ['Date', new Date().toISOString().slice(0, 10)],
    ['Processor', `${cpus()[0]?.model.trim() || 'unknown'}, ${cpus().length} cores`],
    ['Memory', `${Math.round(totalmem() / 2 ** 30)} GiB`],
    ['System', `${type()} ${release()}, ${process.arch}`],
    ['Node.js', process.versions.node],
  ]
}

export function versions(): readonly (readonly [string, string])[] {
  const names = new Set(contenders.flatMap(({ packages }) => packages))
  return [...names].sort().map((name) => [name, versionOf(name)])
}

function versionOf(name: string): string {
  const file = new URL(`node_modules/${name}/package.json`, import.meta.url)
  return String(JSON.parse(readFileSync(file, 'utf8')).version)
}
