/** What the tests of `check` share: a sandbox for each test, `check --json` on it, and tokens of one's own. */
import { type Sandbox, startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, expect } from 'vitest'
import { noteSecret } from '../support/recorded.ts'
import { run, type Variables, variablesFor } from './rig.ts'

/** The sandbox of the test that runs, and the variables to use it by. */
export interface Place {
  readonly sandbox: Sandbox
  readonly variables: Variables
}

export interface Step {
  readonly step: string
  readonly result: string
  readonly text: string
  readonly advice?: string
  readonly code?: string
  readonly cause?: string
  readonly status?: number
  readonly error?: string
  readonly data?: Record<string, unknown>
}

/** A sandbox for each test of the file. */
export function eachWithSandbox(): Place {
  let place: Place | undefined
  const current = (): Place => {
    if (place === undefined) throw new Error('No test runs')
    return place
  }
  beforeEach(async () => {
    const sandbox = await startSandbox()
    noteSecret(sandbox.test.clientSecret)
    place = { sandbox, variables: variablesFor(sandbox.test) }
  })
  afterEach(() => current().sandbox.close())
  return {
    get sandbox() {
      return current().sandbox
    },
    get variables() {
      return current().variables
    },
  }
}

/** Runs `check --json`. */
export async function check(
  { variables }: Place,
  args: readonly string[],
  changed: Variables = {},
): Promise<{ code: number; steps: readonly Step[] }> {
  const { code, stdout } = await run(['check', '--json', ...args], { ...variables, ...changed })
  const { ok, exitCode, steps } = JSON.parse(stdout)
  expect({ ok, exitCode }).toEqual({ ok: code === 0, exitCode: code })
  return { code, steps }
}

export function jwt(claims: unknown): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'none' })}.${part(claims)}.c2lnbmF0dXJl`
}

/** Lets the token endpoint give out this token. */
export function giveOut({ sandbox }: Place, value: string, expires_in = 3600): void {
  noteSecret(value)
  sandbox.test.fail('token', {
    kind: 'json',
    body: { access_token: value, expires_in, token_type: 'Bearer' },
  })
}
