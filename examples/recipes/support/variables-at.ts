/** The variables of a service that reaches the sandbox through another server. */
import type { SandboxEnvironment } from 'merchant-auth/testing'

/** @param url where that server is, in place of the sandbox */
export function variablesAt(
  { variables, environment }: SandboxEnvironment,
  url: string,
): Record<string, string> {
  const replaced = Object.entries(variables).map(([name, value]) => [
    name,
    value.replaceAll(environment.authUrl, url),
  ])
  return Object.fromEntries(replaced)
}
