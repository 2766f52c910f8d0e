/** What fails, and what to do about it: the parts of a row, and how its text is put in the words of its reader. */
import { inManual } from '../base/manual-link.ts'

/** What to do about a kind of failure. A word in braces is what the reader can change: see {@link Words}. */
export interface Advice {
  /** At most two sentences, the action first. */
  readonly advice: string
  /** What `check` says in its place: more than fits a line of a log. */
  readonly inCheck?: string
}

/** What a kind of failure is recognized by. Of several kinds, the first one counts. */
export interface Signs {
  /** Codes, names and messages of errors. A `*` stands for any characters; in what has no space, for those of codes. */
  readonly codes?: readonly string[]
  /** Where none of them says it: what a message contains. */
  readonly words?: RegExp
}

/** Whether a code, a name or a message is one of the signs. */
export function isSignOf({ codes = [], words }: Signs, text: string): boolean {
  return codes.some((code) => code === text || patternOf(code)?.test(text)) || words?.test(text) === true
}

function patternOf(code: string): RegExp | undefined {
  if (!code.includes('*')) return undefined
  const any = code.includes(' ') ? '.*' : '[\\w/]*'
  return new RegExp(`^${code.replace(/[.()]/g, '\\$&').replaceAll('*', any)}$`, 's')
}

/** What a reader can change, by the name of the option: in an error the option itself, in `check` its variable or flag. */
export type Words = Readonly<Record<string, string>>

/** How a token request can be sent. */
interface RequestWay {
  readonly bodyFormat?: string | undefined
  readonly tokenEndpointAuthMethod?: string | undefined
}

/** What proves a client's identity. */
type Proof = 'clientSecret' | 'clientAssertion'

/** The words for the ways that a request was not sent in, each an option with its value. */
export function otherWays(
  { bodyFormat, tokenEndpointAuthMethod }: RequestWay,
  proof: Proof,
  write: (option: keyof RequestWay, value: string) => string = (option, value) => `${option}: '${value}'`,
): Words {
  const method = tokenEndpointAuthMethod === 'client_secret_basic' ? 'post' : 'basic'
  return {
    bodyFormat: write('bodyFormat', bodyFormat === 'form' ? 'json' : 'form'),
    authMethod:
      proof === 'clientSecret'
        ? write('tokenEndpointAuthMethod', `client_secret_${method}`)
        : 'a client secret in place of the assertion',
  }
}

/** The words of an error. */
export const OPTIONS: Words = {
  check: ' npx merchant-auth check says more.',
  tokenPath: 'environment.tokenPath',
  ...otherWays({}, 'clientSecret'),
  circle: '',
  later: '',
  credential: 'clientSecret',
  clientRefused: inManual('the-token-endpoint-rejects-the-client'),
  tooMany: inManual('429-from-the-token-endpoint'),
  unusable: inManual('an-unusable-token-response'),
  endpoints: 'merchant-auth/docs/token-endpoint.md',
}

/** What to do about a failure, in the words of an error. */
export function adviceOf({ advice }: Advice, words: Words = OPTIONS): string {
  return advice.replace(/\{(\w+)\}/g, (_, name: string) => words[name] ?? name)
}

/** What to do about a failure, in the words of `check`. */
export function checkAdviceOf({ advice, inCheck = advice }: Advice, words: Words): string {
  return adviceOf({ advice: inCheck }, words)
}
