/** The names of options, as the interfaces in src declare them: tests that use them know every new option. */
import { readFileSync } from 'node:fs'

export const ENVIRONMENT_OPTIONS = ['EnvironmentAddresses', 'WithAudience'].flatMap((name) =>
  membersOf('environment/environment.ts', name),
)
export const PROVIDER_OPTIONS = [
  ...new Set(
    ['GeneralOptions', 'WithClientSecret', 'WithClientAssertion'].flatMap((name) =>
      membersOf('options/options.ts', name),
    ),
  ),
]
export const ATTACH_OPTIONS = membersOf('options/options.ts', 'AttachOptions')

/** The members of an interface in a file of src. */
function membersOf(file: string, name: string): readonly string[] {
  const source = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
  const [, body = ''] = new RegExp(`^export interface ${name} \\{\\n(.*?)^\\}`, 'ms').exec(source) ?? []
  const members = [...body.matchAll(/^ {2}readonly (\w+)/gm)].map(([, member = '']) => member)
  if (members.length === 0) throw new Error(`src/${file} has no interface ${name}`)
  return members
}
