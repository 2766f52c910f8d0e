// The command line: help, version, color, and errors for invalid arguments, which repeat no value.
import { readFileSync } from 'node:fs'
import { WriteStream } from 'node:tty'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { checkCommand } from '../../src/cli/check.ts'
import { sandboxCommand } from '../../src/cli/sandbox.ts'
import { tokenCommand } from '../../src/cli/token.ts'
import { run } from './rig.ts'

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

describe('the command line', () => {
  it.each([[['--help']], [['-h']], [['help']]])('prints an overview for %s', async (args) => {
    const { code, stdout, stderr } = await run(args)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const word of ['check', 'token', 'sandbox']) expect(stdout).toContain(word)
  })

  it('prints the overview on stderr without a command', async () => {
    const { code, stdout, stderr } = await run([])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain('Usage: npx merchant-auth COMMAND')
  })

  it.each(['--version', '-v'])('prints its version for %s', async (flag) => {
    expect(await run([flag])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  it.each([
    ['check', checkCommand.flags],
    ['token', tokenCommand.flags],
    ['sandbox', sandboxCommand.flags],
  ])('explains %s, each flag included', async (name, flags) => {
    const { code, stdout } = await run([name, '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain(`Usage: npx merchant-auth ${name}`)
    expect(await run([name, '-h'])).toMatchObject({ code, stdout })
    expect(await run(['help', name])).toMatchObject({ code, stdout })
    expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([])
    const explained = [...stdout.matchAll(/^ {2}--([\w-]+)/gm)].map(([, flag]) => flag)
    expect(Object.keys(flags).filter((flag) => !explained.includes(flag))).toEqual([])
  })

  const SECRET = /^A client secret or an assertion cannot be passed on the command line/
  const ARGUMENT = 'Unexpected argument. A value must follow its flag, as in --flag VALUE.'
  const CALL = '--call must be an absolute URL (https://…) without a user name and a password.'
  it.each<[args: string, message: string | RegExp]>([
    ['chekc', 'Unknown command. Did you mean check?'],
    ['help HORSE', 'Unknown command.'],
    ['--json check', 'The command comes first: check, token or sandbox.'],
    ['check --jsno=HORSE', 'Unknown flag --jsno. Did you mean --json?'],
    ['check -pHORSE', 'Unknown flag.'],
    ['check HORSE', ARGUMENT],
    ['check --call', '--call needs a value.'],
    ['check --call --json', '--call needs a value. One that begins with - is written --call=-…'],
    ['check --call -HORSE', '--call needs a value. One that begins with - is written --call=-…'],
    ['check --json=HORSE', '--json takes no value.'],
    ['check --HORSE', 'Unknown flag.'],
    ['check -- HORSE', ARGUMENT],
    ['token --client-secret HORSE', SECRET],
    ['check --call /HORSE', CALL],
    ['check --call http://user:HORSE@127.0.0.1/merchant', CALL],
    ['check --header-name=A@HORSE', /^--header-name must be the name of a header/],
    ['check --scheme A@HORSE', /^--scheme must be an authentication scheme/],
    ['token --header --json', '--header and --json cannot be combined.'],
    ['sandbox --environment HORSE', 'The value of --environment must be test or production.'],
    ['sandbox --port 65536', '--port must be a port from 0 to 65535'],
    ['sandbox --lifetime-seconds 0', /^--lifetime-seconds must be .* from 1 to 2147483647$/],
    ['sandbox --reject-all-tokens=HORSE', /^--reject-all-tokens must be /],
    ['sandbox --quota HORSE', "--quota must be a quota such as '10/h,50/d'"],
  ])('rejects "%s" without repeating its values', async (line, message) => {
    const args = line.split(' ')
    const { code, stdout, stderr } = await run(args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    const [, errorText = '', page] = /^merchant-auth: (.*)\nSee: npx merchant-auth (.*)\n$/.exec(stderr) ?? []
    if (typeof message === 'string') expect(errorText).toBe(message)
    else expect(errorText).toMatch(message)
    expect(page).toBe(/^(?:check|token|sandbox) /.test(line) ? `${args[0]} --help` : '--help')
    expect(stderr).not.toContain('HORSE')
  })

  it('uses color only on a terminal, and not if NO_COLOR is set', async () => {
    vi.stubEnv('TERM', 'xterm-256color')
    for (const name of ['CI', 'FORCE_COLOR', 'NO_COLOR']) vi.stubEnv(name, undefined)
    const getColorDepth = WriteStream.prototype.getColorDepth
    expect((await run(['x'])).stderr).toMatch(/^merchant-auth: /)
    expect((await run(['x'], {}, { getColorDepth })).stderr).toContain('\u001b[31mmerchant-auth:\u001b[39m ')
    vi.stubEnv('NO_COLOR', '1')
    expect((await run(['x'], {}, { getColorDepth })).stderr).toMatch(/^merchant-auth: /)
  })
  afterEach(() => vi.unstubAllEnvs())
})
