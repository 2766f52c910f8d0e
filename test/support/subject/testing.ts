/** `merchant-auth/testing` as the tests import it: the real module, with its secrets noted. */
import { type Sandbox, type SandboxOptions, startSandbox as startReal } from '../../../src/testing/index.ts'
import { noteSecret } from '../recorded.ts'

export * from '../../../src/testing/index.ts'

export async function startSandbox(options?: SandboxOptions): Promise<Sandbox> {
  const sandbox = await startReal(options)
  noteSecret(sandbox.production.clientSecret)
  noteSecret(sandbox.test.clientSecret)
  return sandbox
}
