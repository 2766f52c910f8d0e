// `check --call`: one API call, what its answer means, and where the token does not go.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { withRoom } from '../support/patience.ts'
import { noteSecret } from '../support/recorded.ts'
import { check, eachWithSandbox, giveOut, type Step } from './check-rig.ts'
import { run } from './rig.ts'

const at = eachWithSandbox()

describe('check --call', () => {
  const call = async (changed: readonly string[] = []): Promise<Step | undefined> => {
    const { code, steps } = await check(at, [
      '--call',
      `${at.sandbox.test.merchantUrl}/orders?card=4711`,
      ...changed,
    ])
    expect(code).toBe(steps.at(-1)?.result === 'ok' ? 0 : 7)
    expect(JSON.stringify(steps)).not.toContain('4711')
    return steps.at(-1)
  }

  it.each([
    [403, 'a right or a scope'],
    [404, 'nothing at this URL'],
    [405, 'takes no GET'],
    [429, 'Too many calls'],
    [410, 'Check the URL'],
    [502, 'in trouble'],
  ])('says what a %i means', async (status, advice) => {
    at.sandbox.test.fail('merchant', { kind: 'status', status })
    expect(await call()).toMatchObject({ result: 'failed', status, advice: expect.stringContaining(advice) })
    expect(at.sandbox.test.counts).toMatchObject({ merchant: 1, token: 1 })
  })

  it('follows no redirect', async () => {
    at.sandbox.test.fail('merchant', { kind: 'redirect', location: 'https://other.example/secret?x=4711' })
    expect(await call()).toMatchObject({
      text: expect.stringMatching(/a redirect to https:\/\/other\.example$/),
    })
  })

  it('tells a hang and a reset', async () => {
    at.sandbox.test.fail('merchant', { kind: 'hang' })
    const hung = await withRoom(
      600, // for the token, too
      (limitMs) =>
        check(at, ['--call', `${at.sandbox.test.merchantUrl}/orders`, '--timeout-ms', String(limitMs)]),
      ({ code }) => code === 7,
    )
    expect(hung.steps.at(-1)).toMatchObject({ text: expect.stringContaining('no answer in time') })
    at.sandbox.test.clearFaults()
    at.sandbox.test.fail('merchant', { kind: 'reset' })
    expect(await call()).toMatchObject({ cause: 'ECONNRESET' })
  })

  it('sends the token in the header that is named', async () => {
    at.sandbox.test.configure({ header: 'X-Token', scheme: '' })
    expect(await call()).toMatchObject({ status: 401, advice: expect.stringContaining('--header-name') })
    expect(await call(['--header-name', 'X-Token', '--scheme', ''])).toMatchObject({ result: 'ok' })
  })

  it('to a URL below none of the API URLs is not made, and costs no token', async () => {
    const { code, steps } = await check(at, ['--call', 'https://other.example/orders?card=4711'])
    expect(code).toBe(7)
    expect(steps.at(-1)).toMatchObject({ step: 'call', result: 'failed' })
    expect(JSON.stringify(steps)).not.toContain('4711')
    expect(at.sandbox.test.counts).toMatchObject({ token: 0, merchant: 0, 'in-store': 0 })
  })

  it.each(['not a URL', '/orders', 'http://user:open%20sesame@127.0.0.1/merchant'])(
    'to %j makes no sense, and costs no token',
    async (url) => {
      noteSecret('open%20sesame')
      const { code, stdout, stderr } = await run(['check', `--call=${url}`], at.variables)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toMatch(
        /^merchant-auth: --call must be an absolute URL, without a user name and a password\.\n/,
      )
      expect(at.sandbox.test.counts.token).toBe(0)
    },
  )

  it('repeats of a challenge no token, and nothing that steers a terminal', async () => {
    const server = createServer(({ headers }, response) => {
      response.writeHead(401, { 'www-authenticate': `Bearer error="no ${headers.authorization}"` }).end()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      giveOut(at, 'the-token-of-this-test')
      const { steps } = await check(at, ['--api-url', url, '--call', `${url}/x`])
      expect(steps.at(-1)?.text).toMatch(/401 in \d+ ms\nBearer error="no Bearer \[hidden\]"$/)
    } finally {
      server.close()
      server.closeAllConnections()
    }
  })
})
