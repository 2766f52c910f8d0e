/** What `check` remarks on options that are valid, but may not do what was meant. */

import { similarName } from '../base/similar-name.ts'
import { destinationsOf } from '../environment/destinations.ts'
import { type Environment, tokenEndpoint } from '../environment/environment.ts'
import type { TokenProviderOptions } from '../options/options.ts'
import type { Finding } from './report.ts'
import { type Sources, unknownVariables } from './settings.ts'

/** A remark. Its texts are fit to be shown. */
export type Remark = Pick<Finding, 'result' | 'text' | 'advice'>

/** The names of the APIs in the type of `optionsFromEnv()`. */
const API_NAMES = ['merchant', 'inStore']

/**
 * The remarks.
 *
 * @param show makes a text fit to be shown
 */
export function optionRemarks(
  { environment, clientAssertion, clientId }: TokenProviderOptions,
  { secret, secretFile, secretContent, variables }: Sources,
  show: (text: string) => string,
): Remark[] {
  const remarks: Remark[] = []
  for (const url of Object.values<string>(environment.apiUrls))
    if (new URL(url).pathname === '/')
      remarks.push({ result: 'info', text: `every URL of ${show(url)} gets the token` })
  if (secretFile !== undefined && secretContent.wasMarked === true) {
    const text = `the file ${show(secretFile)} began with a byte order mark, which was dropped`
    remarks.push({ result: 'info', text })
  }
  remarks.push(...endpointRemarks(environment, show), ...nameRemarks(environment, show))
  for (const [name, similar] of unknownVariables(variables)) {
    const advice = similar === undefined ? 'Check its spelling, or remove it.' : `Did you mean ${similar}?`
    remarks.push({ result: 'warning', text: `${show(name)} is not a variable of this package`, advice })
  }
  if (clientAssertion === undefined && /^["'\s]|["'\s]$/.test(secret)) {
    const text = 'the client secret begins or ends with a space or a quote'
    remarks.push({ result: 'warning', text, advice: 'If it is not part of the secret, remove it.' })
  }
  const credentials = { 'client ID': clientId, 'client secret': clientAssertion === undefined ? secret : '' }
  for (const [what, value] of Object.entries(credentials)) {
    if (!UNUSUAL.test(value)) continue
    const text = `the ${what} contains a line break, an invisible character or one that is not ASCII, or ends with \\n`
    remarks.push({ result: 'warning', text, advice: 'It may have come along with a copy: copy it anew.' })
  }
  for (const [what, value] of Object.entries({ ...credentials, audience: environment.audience ?? '' })) {
    if (!NOTHING.test(value)) continue
    const text = `the ${what} is the word for a missing value, such as undefined or null`
    const advice = 'A program or a template wrote it: set the value itself.'
    remarks.push({ result: 'warning', text, advice })
  }
  return remarks
}

/** What JavaScript and templates make of a value that is not there, or of an object. */
const NOTHING = /^(?:undefined|null|\[object \w+\])$/i
/** RFC 6749, appendix A, allows ASCII without control characters. The letters \n at the end are a line break that nobody read. */
const UNUSUAL = /[^\x20-\x7e]|\\[nrt]$/

/**
 * The URL of an API may have been taken for that of the token endpoint. A base URL of the whole service may have both below
 * it: one without a path, or one that the other APIs are below, too. With a single API it cannot be told.
 */
function endpointRemarks(environment: Environment, show: (text: string) => string): Remark[] {
  const { apiUrls } = environment
  const urls = Object.values<string>(apiUrls)
  const entry = Object.entries<string>(apiUrls).find(([, url]) => {
    const destinations = destinationsOf({ ...environment, apiUrls: [url] })
    const isBelow = (other: string): boolean => destinations(other).api !== undefined
    const isWholeService = new URL(url).pathname === '/' || (urls.length > 1 && urls.every(isBelow))
    return !isWholeService && isBelow(tokenEndpoint(environment))
  })
  if (entry === undefined) return []
  const [name, url] = entry
  const label = Array.isArray(apiUrls) ? show(url) : `${show(url)} (${show(name)})`
  return [
    {
      result: urls.length > 1 ? 'warning' : 'info',
      text: `the token endpoint is below the API URL ${label}`,
      advice: 'MERCHANT_AUTH_URL may be the URL of the API instead of that of the token endpoint.',
    },
  ]
}

/** Programs read `apiUrls.merchant`, and perhaps `apiUrls.inStore`. */
function nameRemarks({ apiUrls }: Environment, show: (text: string) => string): Remark[] {
  const fail = (name: string): string => `programs that read apiUrls.${name} fail`
  if (Array.isArray(apiUrls)) {
    const text = `the API URLs have no names: ${fail('merchant')}`
    return [{ result: 'warning', text, advice: 'Write merchant=https://…, or read apiUrls[0].' }]
  }
  const names = Object.keys(apiUrls)
  return API_NAMES.filter((known) => !names.includes(known)).flatMap((known): Remark[] => {
    const text = `no API URL has the name ${known}: ${fail(known)}`
    const similar = names.find((name) => similarName(name, [known]) !== undefined)
    if (similar !== undefined)
      return [{ result: 'warning', text, advice: `Write ${known} instead of ${show(similar)}.` }]
    return known === 'merchant' ? [{ result: 'info', text }] : []
  })
}
