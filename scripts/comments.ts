/**
 * The doc comments in src that the manual shows. They are read as Biome formats them: the compiler in node_modules has only an
 * API that its makers call unstable, and that starts a process.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** What a doc comment says. */
interface Comment {
  /** Its first paragraph as one line: further ones are for those who use the code. */
  readonly text: string
  /** The items of a list below it. */
  readonly items: readonly string[]
  /** The tag `@default`. */
  readonly default: string | undefined
}

/** A member of an interface. */
export interface Member extends Comment {
  readonly name: string
  readonly isOptional: boolean
  /** As it is written. */
  readonly type: string
}

/** The members of an interface in a file of src. */
export function membersOf(file: string, name: string): readonly Member[] {
  const start = `(?:export )?interface ${name}(?: extends \\w+)?`
  const [, body = ''] = new RegExp(`^${start} \\{\\n(.*?^)\\}`, 'ms').exec(sourceOf(file)) ?? []
  const member = /(?: {2}\/\*\*((?:(?!\*\/).)*)\*\/\n)? {2}readonly (\w+)(\??):((?:[^\n]|\n {4})*)\n/gs
  const found = [...body.matchAll(member)]
  if (found.length === 0) throw new Error(`src/${file} has no interface ${name} with members`)
  return found.map(([, comment = '', member = '', optional, type = '']) => ({
    name: member,
    isOptional: optional === '?',
    type: oneLine(type),
    ...read(comment),
  }))
}

/** A type, an interface or an entry of a table, and its comment. */
interface Declaration extends Comment {
  readonly name: string
  /** From its name to the next empty line. */
  readonly code: string
}

/** What has a comment in a file of src, but for members of interfaces. */
export function declarationsIn(file: string): readonly Declaration[] {
  const pattern =
    /\/\*\*((?:(?!\*\/).)*)\*\/\n *(?:export )?(?:interface |type |const )?'?(?!readonly)([\w.]+)(?=(.*?)(?:\n\n|$))/gs
  return [...sourceOf(file).matchAll(pattern)].map(([, comment = '', name = '', code = '']) => ({
    name,
    code,
    ...read(comment),
  }))
}

function sourceOf(file: string): string {
  return readFileSync(fileURLToPath(new URL(`../src/${file}`, import.meta.url)), 'utf8')
}

function read(comment: string): Comment {
  const text = comment.replaceAll(/^ *\* ?/gm, '').trim()
  const [prose = '', ...tags] = text.split(/^@/m)
  const [first = '', ...others] = prose.split(/\n\s*\n/)
  const value = tags.find((tag) => tag.startsWith('default '))?.slice('default '.length)
  return {
    text: oneLine(first),
    items: others.flatMap((part) => part.split(/^- /m).slice(1).map(oneLine)),
    default: value === undefined ? undefined : oneLine(value),
  }
}

function oneLine(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ')
}
