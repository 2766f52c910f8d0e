// `check`, where the token is a JWT: its claims for information, and none of them in the way of a terminal or a secret.
import { describe, expect, it } from 'vitest'
import { check, eachWithSandbox, giveOut, jwt } from './check-rig.ts'

const at = eachWithSandbox()

describe('check, where the token is a JWT', () => {
  const seconds = Math.round(Date.now() / 1000)
  const told = async (): Promise<string[]> => {
    const { code, steps } = await check(at, [])
    expect(code).toBe(0) // for information
    return steps.flatMap(({ step, result, text }) => (step === 'jwt' ? `${result}: ${text}` : []))
  }

  it('compares its claims with what was asked for', async () => {
    giveOut(
      at,
      jwt({
        iss: 'https://id.example/',
        aud: ['https://other.example'],
        exp: seconds + 36_000,
        iat: seconds - 600,
      }),
    )
    expect(await told()).toEqual([
      'info: iss https://id.example/',
      'warning: aud https://other.example',
      expect.stringMatching(/^warning: exp /),
      expect.stringMatching(/^warning: iat .*: this machine's clock is (?:599|600|601|602) s ahead$/),
    ])
  })

  it('takes one audience of several, and claims that are missing', async () => {
    giveOut(at, jwt({ aud: ['https://other.example', at.sandbox.test.environment.audience] }))
    expect(await told()).toEqual([
      'info: iss is missing',
      `info: aud https://other.example, ${at.sandbox.test.environment.audience}, as asked for`,
      'info: exp is missing',
    ])
  })

  it('lets no claim steer the terminal', async () => {
    giveOut(at, jwt({ iss: '\u001b[2Jclear\nand more', aud: 'x'.repeat(5_000), exp: 1e300 }))
    const [iss, aud, exp] = await told()
    expect(iss).toBe('info: iss  [2Jclear and more')
    expect(aud?.length).toBeLessThan(400)
    expect(exp).toContain('exp 1e+300')
  })

  it('takes claims of any type, and repeats no secret', async () => {
    const { clientSecret, environment } = at.sandbox.test
    giveOut(
      at,
      jwt({
        iss: [`http://${clientSecret}/`],
        aud: [{ toString: null }, clientSecret, environment.audience],
        exp: '1795000000',
        iat: seconds,
      }),
    )
    expect(await told()).toEqual([
      'info: iss ["http://[hidden]/"]',
      `info: aud {"toString":null}, [hidden], ${environment.audience}, as asked for`,
      'info: exp "1795000000" is no number',
    ])
    giveOut(at, jwt({ aud: { toString: 1, valueOf: 1 } }))
    expect(await told()).toContain('warning: aud {"toString":1,"valueOf":1}')
  })

  it('cuts nothing before it is searched, in whatever case and wherever the secret stands', async () => {
    const { clientSecret } = at.sandbox.test
    giveOut(
      at,
      jwt({ iss: 'x'.repeat(285) + clientSecret, aud: clientSecret.toUpperCase(), exp: seconds + 3_600 }),
    )
    const said = (await told()).join('\n')
    expect(said.toLowerCase()).not.toContain(clientSecret.slice(0, 12))
    const { steps } = await check(at, [], { MERCHANT_AUTH_CLIENT_ID: clientSecret })
    expect(JSON.stringify(steps)).not.toContain(clientSecret)
  })

  it('blames a clock that is wrong on the clock alone', async () => {
    const iat = seconds - 7_200
    giveOut(at, jwt({ aud: at.sandbox.test.environment.audience, iat, exp: iat + 3_600 }))
    expect(await told()).toEqual([
      'info: iss is missing',
      expect.stringMatching(/^info: aud /),
      expect.stringMatching(/^info: exp .*, as expires_in has it$/),
      expect.stringMatching(/^warning: iat .* s ahead$/),
    ])
  })

  it.each(['abc', 'a.b.c', jwt('text'), jwt([])])('says so where it is none: %#', async (value) => {
    giveOut(at, value)
    expect(await told()).toEqual(['info: the token is no JWT, so there is nothing to read in it'])
  })
})
