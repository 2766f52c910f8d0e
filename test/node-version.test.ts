// A Node.js that is too old: one clear sentence at import.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

it.each(['index.ts', 'attach/axios.ts', 'testing/index.ts'])(
  'src/%s names the oldest Node.js if a function is missing that it has',
  async (entry) => {
    const { href } = new URL(`../src/${entry}`, import.meta.url)
    const args = ['--import', 'data:text/javascript,delete Promise.withResolvers', '--input-type=module']
    const run = promisify(execFile)(process.execPath, [...args, '-e', `import ${JSON.stringify(href)}`])
    await expect(run).rejects.toMatchObject({
      stderr: expect.stringContaining(
        `Error: merchant-auth requires Node.js 22.12 or later; this is ${process.versions.node}\n`,
      ),
    })
  },
)
