/**
 * README.md and docs/testing.md work as readers use them: every shell line and every program runs, in order, in an empty
 * folder. Only the package is the packed one instead of the one in the registry.
 */
import { exec, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { root } from '../../scripts/packed.ts'
import { PATIENCE_MS } from '../support/patience.ts'

/** The reader's shell: this Node.js is first in the path, and the variables of the npm that runs the tests are unset. */
const env = Object.fromEntries(
  Object.entries({
    ...process.env,
    PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH']}`,
    NO_COLOR: '1',
  }).filter(([name]) => !/^npm_|^MERCHANT_AUTH_|^NODE_OPTIONS$/i.test(name)),
)
env['npm_config_prefer_offline'] = 'true'

interface Block {
  readonly language: string
  readonly code: string
  readonly line: number
  /** Whether it shows a file, which is run elsewhere. */
  readonly isShown: boolean
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(root, page), 'utf8')
  return [...text.matchAll(/^( *)```(\w+)\n(.*?)^ *```$/gms)].map((match) => {
    const { 1: indent = '', 2: language = '', 3: code = '', index } = match
    const line = text.slice(0, index).split('\n').length
    const isShown = /<!-- example: \S+ -->\n\n$/.test(text.slice(0, index))
    return { language, code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''), line, isShown }
  })
}

const made = inject('installed')
const folders: string[] = []
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

function newFolder(below: string): string {
  const folder = mkdtempSync(join(below, 'pages-'))
  folders.push(folder)
  return folder
}

describe('README.md', () => {
  const blocks = blocksOf('README.md')
  const [inCodeProgram = '', axiosProgram = '', ...others] = blocks.flatMap(({ language, code }) =>
    language === 'js' ? [code] : [],
  )

  // Windows has no process groups, so the sandbox cannot be ended as by Ctrl-C.
  it.skipIf(process.platform === 'win32')('works when pasted, from top to bottom', async () => {
    expect(others).toEqual([])
    const folder = newFolder(tmpdir())
    let printed = ''
    let sandbox: Background | undefined
    const run = async (line: string): Promise<string> =>
      (await promisify(exec)(line, { cwd: folder, env, timeout: PATIENCE_MS })).stdout

    const runLine = async (line: string): Promise<void> => {
      const [, script] = /^npm ci && npm (?:run )?(\w+)$/.exec(line) ?? []
      if (script !== undefined) {
        expect(packageJson.scripts).toHaveProperty(script) // .ci/run runs these two, in the repository
      } else if (line === 'npx merchant-auth sandbox > .env') {
        sandbox = startInBackground(line, folder)
        const file = join(folder, '.env')
        await sandbox.until(() => existsSync(file) && /_SECRET=.+\n/.test(readFileSync(file, 'utf8')))
      } else if (line === 'node --env-file=.env app.mjs') {
        writeFileSync(join(folder, 'app.mjs'), axiosProgram)
        printed = await run(line)
        writeFileSync(join(folder, 'in-code.mjs'), `${inCodeProgram}\nconsole.log(api.defaults.baseURL)`)
        expect(await run('node in-code.mjs')).toBe('https://api.test.example.com/merchant\n')
      } else if (/^npm install /.test(line)) {
        expect(line).toContain(' merchant-auth ')
        await run(line.replace('merchant-auth', `"${made.tarball}"`))
      } else {
        expect(line).toMatch(/^npx merchant-auth check /) // else: it needs a branch above
        await run(line)
      }
    }

    try {
      for (const { language, code } of blocks) {
        if (language === 'sh') for (const line of code.trim().split('\n')) await runLine(line)
        else if (language === 'text') {
          const [before = '', after = ''] = code.split('  ...\n')
          expect(printed.slice(0, before.length)).toBe(before)
          expect(printed.slice(-after.length)).toBe(after)
        } else if (language === 'ini') {
          writeFileSync(join(folder, 'account.env'), code)
          writeFileSync(
            join(folder, 'options.mjs'),
            "import { optionsFromEnv } from 'merchant-auth'\nconsole.log(optionsFromEnv().clientId)",
          )
          expect(await run('node --env-file=account.env options.mjs')).toBe('your-client-id\n')
        } else expect(language).toBe('js')
      }
    } finally {
      await sandbox?.end()
    }
  })

  it('has programs that compile in a strict ES module project', async () => {
    const folder = newFolder(made.withPeers)
    const compile = (...args: string[]): Promise<unknown> =>
      promisify(execFile)(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), ...args], {
        cwd: folder,
        env,
      })
    await compile('--init')
    const settings = readFileSync(join(folder, 'tsconfig.json'), 'utf8')
    for (const name of ['strict', 'noUncheckedIndexedAccess', 'exactOptionalPropertyTypes'])
      expect(settings).toMatch(new RegExp(`^ *"${name}": true`, 'm'))
    // What docs/compatibility.md says of TypeScript: the types of Node.js are those of this repository.
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    const nodeTypes = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')]
    writeFileSync(join(folder, 'app.ts'), axiosProgram)
    writeFileSync(join(folder, 'in-code.ts'), inCodeProgram)
    await compile('--noEmit', '--pretty', 'false', ...nodeTypes)
    writeFileSync(join(folder, 'wrong.ts'), axiosProgram.replace('.merchant', '.merchant?.wrong'))
    await expect(compile('--noEmit', '--pretty', 'false', ...nodeTypes)).rejects.toMatchObject({
      stdout: expect.stringMatching(/^wrong\.ts\(\d+,\d+\): error TS2339/),
    })
  })
})

describe('docs/testing.md', () => {
  const programs = blocksOf('docs/testing.md').filter(({ isShown }) => !isShown)
  let folder = ''
  beforeAll(() => {
    folder = newFolder(made.withPeers)
  })

  it('has only TypeScript code blocks', () => {
    expect(new Set(programs.map(({ language }) => language))).toEqual(new Set(['ts']))
  })

  it.concurrent.each(programs)('has passing tests in the block at line $line', async ({ code, line }) => {
    const program = join(folder, String(line), 'orders.test.mjs')
    mkdirSync(dirname(program), { recursive: true })
    writeFileSync(program, code)
    const { stdout } = await promisify(execFile)(process.execPath, ['--test-reporter=tap', program], {
      env,
      timeout: PATIENCE_MS,
    })
    expect(stdout).toMatch(/^# pass [1-9]/m)
    expect(stdout).toMatch(/^# fail 0$/m)
  })
})

interface Background {
  /** Waits until the condition holds. Rejects if the command ends first. */
  until(condition: () => boolean): Promise<void>
  /** Ends the command as Ctrl-C does. */
  end(): Promise<void>
}

function startInBackground(line: string, cwd: string): Background {
  // A process group of its own, because Ctrl-C reaches the shell, npx and the command.
  const child = spawn(line, { shell: true, cwd, env, detached: true, stdio: ['ignore', 'ignore', 'pipe'] })
  let errors = ''
  child.stderr?.on('data', (text) => {
    errors += String(text)
  })
  const ended = once(child, 'close')
  return {
    async until(condition) {
      const endsAt = performance.now() + PATIENCE_MS
      while (!condition()) {
        if (child.exitCode !== null || performance.now() > endsAt) throw new Error(`${line}: ${errors}`)
        await sleep(20)
      }
    },
    async end() {
      if (child.exitCode === null) process.kill(-(child.pid as number), 'SIGINT')
      await ended
    },
  }
}
