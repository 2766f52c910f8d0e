/** The help of `merchant-auth sandbox`, and what it says when it has started. */
import { tokenEndpoint } from '../environments.ts'
import type { Sandbox, SandboxEnvironment } from '../testing/index.ts'
import { ACTIONS } from './sandbox-keys.ts'
import type { SandboxPlan } from './sandbox-plan.ts'
import { isTerminal, paint, printable, type Surroundings } from './terminal.ts'

type Streams = Pick<Surroundings, 'stdout' | 'stderr'>

const KEY_LIST = [...Object.entries(ACTIONS), ['q', { summary: 'quit, as Ctrl-C does' }] as const]
  .map(([key, { summary }]) => `  ${key}  ${summary}`)
  .join('\n')

export const SANDBOX_HELP: string = `Runs the service on this machine, for development and tests: a token endpoint that issues signed
tokens, a merchant API and an in-store API that judge them and answer with what they received. All
of it twice, as the environments test and production. Listens on 127.0.0.1 until Ctrl-C ends it.

Usage: merchant-auth sandbox [flags]

Prints the environment variables to use it by on stdout, and everything else on stderr.

  --environment NAME     whose variables: test or production (test)
  --port N               the port of test, 0 to 65535; 0: a free one (0)
  --production-port N    the port of production, likewise (0)
  --json                 each request as a JSON line on stderr, and nothing else there

How both environments behave:
  --lifetime-seconds N   how long tokens are valid, 1 to 2147483647 (3600)
  --token-latency-ms N   how long the token endpoint waits before it answers, 0 to 2147483647 (0)
  --api-latency-ms N     how long the APIs wait before they answer, 0 to 2147483647 (0)
  --reject-all-tokens    the APIs answer 401 to every token; =merchant, =in-store: only that one
  --header-name NAME     the header in which the APIs look for the token (Authorization)
  --scheme SCHEME        what stands before the token in it (Bearer); '' for the bare token
  --fault TARGET:KIND[,KEY=VALUE…]
                         what goes wrong: once or more often. TARGET: token, merchant or in-store

Faults, by their KIND. The usual answer is the one that the request would have had.
  status=N               a status, 200 to 599. With retry-after=SECONDS, json=JSON as body
  hang                   nothing comes. With at=body: half of the usual answer, and then nothing
  reset                  the connection is reset
  redirect=URL           status 307. With status=N, 300 to 399
  text=TEXT              a text, with status 200. With status=N, type=MEDIA-TYPE
  json=JSON              JSON, with status 200. With status=N
  slow-body=MS           the usual answer, spread over so many ms, 0 to 2147483647
  truncated-body         half of the usual answer, then the connection is closed
  huge-body              the usual answer, filled up to 10 MiB, or to huge-body=BYTES. With gzip
Each with times=N: for the next N requests of its target, in the order of the flags; else for all.
text= and json= take the rest of the flag, commas included, so they come last:
  --fault 'token:times=2,status=502,text=<p>Not now, not here</p>'
No other value has a comma; in a URL, write %2C.

Keys, where stdin and stderr are a terminal (for both environments; not with --json):
${KEY_LIST}

Exit codes:
  0  ended by Ctrl-C, q or SIGTERM    2  the command line makes no sense    3  a port cannot be had

Examples:
  merchant-auth sandbox > sandbox.env         # then, in another terminal, one of:
  merchant-auth check --dotenv sandbox.env
  node --env-file=sandbox.env app.js
  . ./sandbox.env
  merchant-auth sandbox --port 4010 --lifetime-seconds 30 --api-latency-ms 200
  merchant-auth sandbox --fault token:status=503,retry-after=2,times=3 --fault in-store:hang
  merchant-auth sandbox --json 2>&1 >sandbox.env | jq 'select(.status >= 400)'
`

/** What there is to say of a sandbox that has just started. */
export interface Started {
  readonly sandbox: Sandbox
  readonly plan: SandboxPlan
  readonly hasKeys: boolean
}

/** For people: where everything is, and how to begin. */
export function welcome({ sandbox, plan, hasKeys }: Started, { stdout, stderr }: Streams): string {
  const bold = (text: string): string => paint('bold', text, stderr)
  const variables = isTerminal(stdout) ? 'With the variables above' : 'With the variables on stdout'
  const faults = plan.faults.map(({ target, label, times }) => {
    const often = times === Number.POSITIVE_INFINITY ? '' : ` (${times} ${times === 1 ? 'time' : 'times'})`
    return `  ${target.padEnd(10)}  ${printable(label, 80)}${often}`
  })
  const sections = [
    `${bold('The sandbox is running.')} Ctrl-C ends it.`,
    [...places(sandbox.test, bold), ...places(sandbox.production, bold)].join('\n'),
    `${variables}, which are for ${plan.environment}:\n  ${curlLine(sandbox, plan)}`,
    ...(faults.length > 0 ? [`${bold('Faults')}\n${faults.join('\n')}`] : []),
    ...(hasKeys ? [`${bold('Keys')}\n${KEY_LIST}`] : []),
  ]
  return `${sections.join('\n\n')}\n\n`
}

function places(
  { environment, merchantUrl, inStoreUrl }: SandboxEnvironment,
  bold: (text: string) => string,
): string[] {
  const { name = '' } = environment
  const indent = ' '.repeat(12)
  return [
    `  ${bold(name.padEnd(10))}  token endpoint  ${tokenEndpoint(environment)}`,
    `  ${indent}merchant API    ${merchantUrl}`,
    `  ${indent}in-store API    ${inStoreUrl}`,
  ]
}

function curlLine(sandbox: Sandbox, { environment, settings: { header, scheme } }: SandboxPlan): string {
  // Both may have signs that a shell reads between double quotes.
  const before = `${header}: ${scheme === '' ? '' : `${scheme} `}`.replace(/[$`]/g, '\\$&')
  return `curl -H "${before}$(merchant-auth token)" ${sandbox[environment].merchantUrl}/orders`
}
