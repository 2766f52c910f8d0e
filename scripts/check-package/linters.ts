/** What publint and attw report on the tarball. Neither may report anything. */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { output, root } from './packed.ts'

/** Every message of publint, suggestions included. */
export async function publintProblems(tarball: string): Promise<string[]> {
  const bytes = await readFile(tarball)
  const { messages, pkg } = await publint({
    pack: { tarball: new Uint8Array(bytes).buffer },
    strict: true,
    level: 'suggestion',
  })
  return messages.map(
    (message) => `publint: ${formatMessage(message, pkg, { color: false }) ?? message.code}`,
  )
}

/** What attw (Are the Types Wrong?) finds for callers of every kind, `moduleResolution: node10` included. */
export async function attwProblems(tarball: string): Promise<string[]> {
  const attw = fileURLToPath(
    new URL('dist/index.js', import.meta.resolve('@arethetypeswrong/cli/package.json')),
  )
  const options = ['--profile', 'strict', '--no-definitely-typed', '--no-color', '--no-emoji']
  try {
    await output(root, [process.execPath, attw, tarball, ...options, '--format', 'ascii'])
    return []
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    return [`attw:\n${stdout}${stderr}`.trim()]
  }
}
