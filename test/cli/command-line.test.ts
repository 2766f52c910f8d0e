// The command line: what is understood, what is refused and how, and that no refusal repeats a value.
import { readFileSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import { WriteStream } from 'node:tty'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { paint, printable } from '../../src/cli/terminal.ts'
import { run } from './rig.ts'

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

describe('merchant-auth', () => {
  it.each([[['--help']], [['-h']], [['help']]])('explains itself by %s', async (args) => {
    const { code, stdout, stderr } = await run(args)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const word of ['check', 'token', 'sandbox', 'Examples:']) expect(stdout).toContain(word)
  })

  it.each(['check', 'token', 'sandbox'])('explains %s, with examples', async (name) => {
    const { code, stdout } = await run([name, '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain(`Usage: merchant-auth ${name}`)
    expect(stdout).toContain('Examples:\n  ')
    for (const line of stdout.split('\n')) expect(line.length, line).toBeLessThanOrEqual(112)
    expect(await run([name, '-h'])).toMatchObject({ code, stdout })
    expect(await run(['help', name])).toMatchObject({ code, stdout })
  })

  it('says what it is for on stderr where nothing is asked for', async () => {
    const { code, stdout, stderr } = await run([])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain('Usage: merchant-auth COMMAND')
  })

  it.each([[['--version']], [['-v']]])('tells its version by %s', async (args) => {
    expect(await run(args)).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  it.each([
    [['chekc'], 'There is no such command.'],
    [['toString'], 'There is no such command.'],
    [['check', '--nothing'], 'There is no flag --nothing.'],
    [['check', '--constructor'], 'There is no flag --constructor.'],
    [['check', '-pHORSE'], 'There is no flag of that name.'],
    [['check', 'HORSE'], 'An argument is not a flag. Values follow their flag.'],
    [['check', '--', 'HORSE'], 'An argument is not a flag. Values follow their flag.'],
    [['check', '--json=HORSE'], '--json takes no value.'],
    [['check', '--call'], '--call needs a value.'],
    [['check', '--call', '--json'], '--call needs a value.'],
    [['token', '--client-secret-file', ''], '--client-secret-file needs a value.'],
    [['check', '--env-file', 'HORSE'], 'Node.js takes --env-file for itself. Name the file with --dotenv.'],
    [['--json', 'check'], 'The command comes first: check, token or sandbox.'],
    [['help', 'HORSE'], 'There is no such command.'],
    [['check', '--body-format', 'HORSE'], '--body-format must be json or form.'],
    [['check', '--call=a', '--call=b'], '--call is there twice.'],
    [
      ['check', '--header-name', 'A HORSE'],
      '--header-name must be the name of a header that can carry the token (RFC 9110 §5.1).',
    ],
    [['check', '--scheme', 'A HORSE'], "--scheme must be an authentication scheme (RFC 9110 §11.1), or ''."],
    [['token', '--header', '--json'], '--header and --json exclude each other.'],
    [['token', '--client-secret', 'HORSE'], expect.stringMatching(/^The client secret is never taken/)],
    [['token', '--client-secret=HORSE'], expect.stringMatching(/^The client secret is never taken/)],
    [['check', '--secret=HORSE'], expect.stringMatching(/^The client secret is never taken/)],
  ])('refuses %j, and repeats no value', async (args, message) => {
    const { code, stdout, stderr } = await run(args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    const [first, ...rest] = stderr.split('\n')
    expect(first?.replace('merchant-auth: ', '')).toEqual(message)
    expect(rest.join()).toMatch(/^Try: merchant-auth (?:check |token )?--help,$/)
    expect(stderr).not.toContain('HORSE')
  })
})

describe('what goes to a terminal', () => {
  afterEach(() => vi.unstubAllEnvs())

  it('has colour only where one is', () => {
    const plain = new PassThrough()
    const terminal = Object.assign(new PassThrough(), {
      isTTY: true,
      getColorDepth: WriteStream.prototype.getColorDepth,
    })
    vi.stubEnv('TERM', 'xterm-256color')
    vi.stubEnv('CI', undefined) // there Node.js goes by which CI it is
    vi.stubEnv('FORCE_COLOR', undefined)
    vi.stubEnv('NO_COLOR', undefined)
    expect(paint('red', 'no', plain)).toBe('no')
    expect(paint('red', 'no', terminal)).toBe('\u001b[31mno\u001b[39m')
    vi.stubEnv('NO_COLOR', '1')
    expect(paint('red', 'no', terminal)).toBe('no')
  })

  it('has nothing in it that steers it', () => {
    expect(printable('a\u001b]0;title\u0007b\nc\u202Ed\u2028e')).toBe('a ]0;title b c d e')
    expect(printable('x'.repeat(400))).toBe(`${'x'.repeat(300)}…`)
  })
})
