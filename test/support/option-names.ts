/** The names of options, as the interfaces in src declare them: tests that use them know every new option. */
import { membersOf } from '../../scripts/comments.ts'

export const ENVIRONMENT_OPTIONS = namesOf(
  'environment/environment.ts',
  'EnvironmentAddresses',
  'WithAudience',
)
export const PROVIDER_OPTIONS = namesOf(
  'options/options.ts',
  ...['GeneralOptions', 'WithClientSecret', 'WithClientAssertion'],
)

function namesOf(file: string, ...interfaces: readonly string[]): readonly string[] {
  const names = interfaces.flatMap((name) => membersOf(file, name).map((member) => member.name))
  return [...new Set(names)]
}
