// A Node.js that is too old: one clear sentence at import. A global Promise that a library replaced is none.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

/** Runs a program after a change of the globals. */
function runAfter(change: string, program: string): Promise<{ stdout: string }> {
  const args = ['--import', `data:text/javascript,${encodeURIComponent(change)}`, '--input-type=module']
  return promisify(execFile)(process.execPath, [...args, '-e', program])
}

const hrefOf = (entry: string): string => JSON.stringify(new URL(`../../src/${entry}`, import.meta.url).href)

it.each(['index.ts', 'attach/axios/index.ts', 'testing/index.ts'])(
  'src/%s names the oldest Node.js if a function is missing that it has',
  async (entry) => {
    const line = `^Error: merchant-auth requires Node.js 22.12 or later; this is ${process.versions.node}$`
    await expect(runAfter('delete Map.groupBy', `import ${hrefOf(entry)}`)).rejects.toMatchObject({
      stderr: expect.stringMatching(new RegExp(line, 'm')),
    })
  },
)

it('a Promise with which a library replaced the global one needs only what ES2021 has', async () => {
  const replace = `
    const Native = Promise
    globalThis.Promise = class Replaced {
      constructor(run) { this.native = new Native(run) }
      then(...args) { return this.native.then(...args) }
      catch(...args) { return this.native.catch(...args) }
      finally(...args) { return this.native.finally(...args) }
    }
    for (const name of ['resolve', 'reject', 'all', 'allSettled', 'any', 'race'])
      Promise[name] = (...args) => new Promise((resolve, reject) => Native[name](...args).then(resolve, reject))
  `
  const program = `
    import { createAuthFetch, createTokenProvider } from ${hrefOf('index.ts')}
    import { startSandbox } from ${hrefOf('testing/index.ts')}
    const sandbox = await startSandbox()
    sandbox.test.configure({ tokenLatencyMs: 10 })
    const tokens = createTokenProvider({ ...sandbox.test.options, onEvent: async () => { throw new Error('a fault') } })
    const authFetch = createAuthFetch(tokens)
    const post = () => authFetch(sandbox.test.merchantUrl + '/orders', { method: 'POST', body: 'x' })
    const statuses = [(await post()).status]
    sandbox.test.revoke()
    statuses.push((await post()).status)
    await tokens.close()
    await sandbox.close()
    console.log(statuses.join())
  `
  expect((await runAfter(replace, program)).stdout).toBe('200,200\n')
})
