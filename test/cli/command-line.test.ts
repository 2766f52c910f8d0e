// The command line: help, version, color, and errors for invalid arguments, which repeat no value.
import { readFileSync } from 'node:fs'
import { WriteStream } from 'node:tty'
import { stripVTControlCharacters } from 'node:util'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { run } from './rig.ts'

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

describe('the command line', () => {
  it.each([[['--help']], [['-h']], [['help']]])('prints an overview for %s', async (args) => {
    const { code, stdout, stderr } = await run(args)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const word of ['check', 'token', 'sandbox', 'Examples:']) expect(stdout).toContain(word)
  })

  it('prints the overview on stderr without a command', async () => {
    const { code, stdout, stderr } = await run([])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain('Usage: npx merchant-auth COMMAND')
  })

  it.each(['--version', '-v'])('prints its version for %s', async (flag) => {
    expect(await run([flag])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  const SETTINGS =
    'auth-url audience api-url client-id client-secret-file timeout-ms body-format dotenv header-name scheme json'
  const SANDBOX =
    'environment port production-port json lifetime-seconds token-latency-ms api-latency-ms reject-all-tokens header-name scheme fault'
  it.each([
    ['check', `${SETTINGS} call`],
    ['token', `${SETTINGS} header store`],
    ['sandbox', SANDBOX],
  ])('explains %s with every flag and examples, in at most 80 columns', async (name, flags) => {
    const { code, stdout } = await run([name, '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain(`Usage: npx merchant-auth ${name}`)
    expect(stdout).toContain('Examples:\n  ')
    for (const flag of flags.split(' ')) expect(stdout).toMatch(new RegExp(`^  --${flag}[ [\\n]`, 'm'))
    for (const line of stdout.split('\n')) expect(line.length, line).toBeLessThanOrEqual(80)
    expect(await run([name, '-h'])).toMatchObject({ code, stdout })
    expect(await run(['help', name])).toMatchObject({ code, stdout })
    const wide = await run([name, '--help'], {}, { columns: 200 })
    expect(wide.stdout).toBe(stdout)
  })

  it.each(['', 'check', 'token', 'sandbox'])('explains "%s" on a narrow terminal', async (name) => {
    const { stdout } = await run(['help', name].filter(Boolean), {}, { columns: 60 })
    expect(stdout).toContain('Examples:\n  ')
    for (const line of stdout.split('\n')) expect(line.length, line).toBeLessThanOrEqual(60)
  })

  it('describes a long flag on the line below it', async () => {
    const { stdout } = await run(['sandbox', '--help'])
    expect(stdout).toContain(
      '\n  --fault TARGET:KIND[,KEY=VALUE…]\n                             what goes wrong; ',
    )
  })

  const SECRET = /^A client secret or an assertion cannot be passed on the command line/
  const HEADER = '--header-name must be the name of a header that can carry the token (RFC 9110 §5.1).'
  const SCHEME = "--scheme must be an authentication scheme (RFC 9110 §11.1), or ''."
  const CALL =
    '--call must be an absolute URL, such as https://api.example.com/merchant/orders, without a user name and a password.'
  const WHOLE = ' must be a whole number from'
  const ARGUMENT = 'Unexpected argument. A value must follow its flag, as in --flag VALUE.'
  it.each<[args: string, message: string | RegExp]>([
    ['chekc', 'Unknown command. Did you mean check?'],
    ['HORSE', 'Unknown command.'],
    ['help tokn', 'Unknown command. Did you mean token?'],
    ['--hepl', 'Unknown flag. Did you mean --help?'],
    ['toString', 'Unknown command.'],
    ['--json check', 'The command comes first: check, token or sandbox.'],
    ['check --nothing', 'Unknown flag --nothing.'],
    ['check --jsno=HORSE', 'Unknown flag --jsno. Did you mean --json?'],
    ['check --dotEnv HORSE', 'Unknown flag. Did you mean --dotenv?'],
    ['sandbox --lifetime-second=HORSE', 'Unknown flag --lifetime-second. Did you mean --lifetime-seconds?'],
    ['sandbox --hlep', 'Unknown flag --hlep. Did you mean --help?'],
    ['check --constructor', 'Unknown flag --constructor.'],
    ['check -pHORSE', 'Unknown flag.'],
    ['check HORSE', ARGUMENT],
    ['check -- HORSE', ARGUMENT],
    ['check --json=HORSE', '--json takes no value.'],
    ['check --call', '--call needs a value.'],
    ['check --call --json', '--call needs a value.'],
    ['token --client-secret-file ', '--client-secret-file needs a value.'],
    ['check --env-file HORSE', 'Node.js handles --env-file itself. Use --dotenv FILE instead.'],
    ['check --body-format HORSE', 'The value of --body-format must be json or form.'],
    ['check --call=a --call=b', '--call is given twice.'],
    ['check --call HORSE', CALL],
    ['check --call /HORSE', CALL],
    ['check --call http://user:HORSE@127.0.0.1/merchant', CALL],
    ['check --header-name=A@HORSE', HEADER],
    ['check --scheme A@HORSE', SCHEME],
    ['token --header --json', '--header and --json cannot be combined.'],
    ['token --client-secret HORSE', SECRET],
    ['token --client-secret=HORSE', SECRET],
    ['check --secret=HORSE', SECRET],
    ['sandbox --environment HORSE', 'The value of --environment must be test or production.'],
    ['sandbox --port 65536', 'The value of --port must be a whole number from 0 to 65535.'],
    ['sandbox --production-port 1.5', `The value of --production-port${WHOLE} 0 to 65535.`],
    ['sandbox --lifetime-seconds 0', `The value of --lifetime-seconds${WHOLE} 1 to 2147483647.`],
    ['sandbox --token-latency-ms 2147483648', `The value of --token-latency-ms${WHOLE} 0 to 2147483647.`],
    ['sandbox --api-latency-ms HORSE', `The value of --api-latency-ms${WHOLE} 0 to 2147483647.`],
    ['sandbox --reject-all-tokens=HORSE', 'The value of --reject-all-tokens must be merchant or in-store.'],
    ['sandbox --reject-all-tokens=', 'The value of --reject-all-tokens must be merchant or in-store.'],
    ['sandbox --reject-all-tokens merchant', ARGUMENT],
    ['sandbox --reject-all-tokens --reject-all-tokens', '--reject-all-tokens is given twice.'],
    ['sandbox --header-name a@b', HEADER],
    ['sandbox --scheme a@b', SCHEME],
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

  it('wraps messages only on a terminal', async () => {
    const { stderr } = await run(['token', '--secret', 'HORSE'])
    expect(stderr.split('\n')).toHaveLength(3)
    const narrow = await run(['token', '--secret', 'HORSE'], {}, { columns: 60 })
    const lines = stripVTControlCharacters(narrow.stderr).split('\n')
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(60)
    expect(lines.join(' ').replace(/ +/g, ' ').trim()).toBe(stderr.replaceAll('\n', ' ').trim())
  })
})

describe('color in the output', () => {
  afterEach(() => vi.unstubAllEnvs())

  it('is used only on a terminal, and not if NO_COLOR is set', async () => {
    vi.stubEnv('TERM', 'xterm-256color')
    for (const name of ['CI', 'FORCE_COLOR', 'NO_COLOR']) vi.stubEnv(name, undefined)
    const getColorDepth = WriteStream.prototype.getColorDepth
    expect((await run(['x'])).stderr).toMatch(/^merchant-auth: /)
    expect((await run(['x'], {}, { getColorDepth })).stderr).toContain('\u001b[31mmerchant-auth:\u001b[39m ')
    vi.stubEnv('NO_COLOR', '1')
    expect((await run(['x'], {}, { getColorDepth })).stderr).toMatch(/^merchant-auth: /)
  })
})
