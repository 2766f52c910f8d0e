/** An API without a network, which rejects tokens on demand, behind a fetch with the token of a provider. */
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import { expect } from 'vitest'
import { FIRST_DOUBT } from '../../src/token/limits/renewals.ts'
import type { Fleet, Process } from '../store/fleet.ts'
import { longLived } from '../store/scenes.ts'
import { settled } from '../support/clock.ts'
import { HOUR_MS } from '../support/periods.ts'
import { type Answer, granted, type Rig, rig, type ScriptedEndpoint } from './harness.ts'

const MERCHANT = 'https://api.test.example/merchant'

/** A call with a 401 of its own, whatever its token. */
export const REFUSED_URL = `${MERCHANT}/stores/unknown`
/** A call that is answered with `otherStatus`, once its token is accepted. */
export const OTHER_URL = `${MERCHANT}/other`
/** A call that is answered only by `answerSlow()`. */
export const SLOW_URL = `${MERCHANT}/slow`

/** A token endpoint numbers its tokens in the order of their issue; the first one is 1. */
export class Issued {
  readonly #values: string[] = []

  constructor(endpoint: ScriptedEndpoint, fields: Record<string, unknown> = {}) {
    endpoint.otherwise = this.granted(fields)
  }

  granted(fields: Record<string, unknown> = {}): Answer {
    return async (init) => {
      const response = await granted(fields)(init)
      const { access_token: value } = (await response.clone().json()) as { access_token: string }
      if (!this.#values.includes(value)) this.#values.push(value)
      return response
    }
  }

  numberOf(value: string): number {
    return this.#values.indexOf(value) + 1
  }
}

function responseWith(status: number): Response {
  if (status === 0) return Response.error()
  if (status >= 200) return new Response(null, { status })
  return Object.defineProperty(new Response(null), 'status', { value: status })
}

/** The status that a caller gets, and the numbers of the tokens that the call was sent with. */
export type Called = readonly [status: number, ...tokens: number[]]

export class ScriptedApi {
  /** Whether it accepts a token, by its number. */
  accepts: (token: number) => boolean = () => true
  /** 0: the response of a fetch that hides it; 101: what undici reports of an upgrade. */
  otherStatus = 200
  answerSlow: () => void = () => {}
  readonly #fetch: typeof fetch
  /** The tokens of each call, by its `x-call`. */
  readonly #sent: number[][] = []

  constructor(provider: TokenProvider, issued: Issued) {
    const answer = async (input: unknown, init: RequestInit = {}): Promise<Response> => {
      const url = String(input)
      const headers = new Headers(init.headers)
      const token = issued.numberOf(headers.get('authorization')?.split(' ')[1] ?? '')
      this.#sent[Number(headers.get('x-call'))]?.push(token)
      if (url === SLOW_URL) await new Promise<void>((resolve) => (this.answerSlow = resolve))
      const isAccepted = url !== REFUSED_URL && this.accepts(token)
      return responseWith(isAccepted ? (url === OTHER_URL ? this.otherStatus : 200) : 401)
    }
    this.#fetch = createAuthFetch(provider, { fetch: answer as typeof fetch })
  }

  /** Makes a call. */
  async call(url = `${MERCHANT}/orders`, init?: RequestInit): Promise<Called> {
    const sent: number[] = []
    const call = String(this.#sent.push(sent) - 1)
    const { status } = await this.#fetch(url, { ...init, headers: { 'x-call': call } })
    await settled() // what runs for the next call
    return [status, ...sent]
  }

  /** As `call`, so many at once. */
  calls(count: number, url?: string): Promise<readonly Called[]> {
    return Promise.all(Array.from({ length: count }, () => this.call(url)))
  }

  /** As many calls as renew nothing in doubt, after one renewal that did not help: the next rejected one renews. */
  async callsBeforeRenewal(url?: string): Promise<void> {
    for (let nth = 1; nth < FIRST_DOUBT; nth += 1) await this.call(url)
  }

  /** As `call`, with a body that cannot be sent twice. */
  callOnce(): Promise<Called> {
    const body = new ReadableStream({ start: (controller) => controller.close() })
    return this.call(undefined, { method: 'POST', body, duplex: 'half' } as RequestInit)
  }
}

export interface AttachedRig extends Rig {
  readonly api: ScriptedApi
  readonly issued: Issued
}

/** A provider whose token is attached to a scripted API. Its tokens live for 10 h, and are renewed in the last one. */
export function attachedRig(fields: Record<string, unknown> = {}): AttachedRig {
  const made = rig([], { retries: 0, refreshAheadMs: HOUR_MS })
  const issued = new Issued(made.endpoint, { expires_in: 36_000, ...fields })
  return { ...made, issued, api: new ScriptedApi(made.provider, issued) }
}

/**
 * An API in doubt after a renewal for a call with a 401 of its own: n seconds ago, so that only the number of 401s in a row holds
 * the next one back. It has accepted the second token.
 */
export async function inDoubt(fields?: Record<string, unknown>): Promise<AttachedRig> {
  const made = attachedRig(fields)
  await made.api.call()
  expect(await made.api.call(REFUSED_URL)).toEqual([401, 1, 2])
  expect(await made.api.call()).toEqual([200, 2])
  await made.clock.advance(FIRST_DOUBT * 1_000)
  return made
}

/**
 * A scheduled renewal has yielded the second token, with which no call was sent yet; the API has accepted the first one, which
 * lives for 30 min more.
 */
export async function renewedOnSchedule(fields: Record<string, unknown> = {}): Promise<AttachedRig> {
  const made = attachedRig()
  await made.api.call()
  await made.clock.advance(9.5 * HOUR_MS)
  made.endpoint.answers.push(made.issued.granted({ expires_in: 36_000, ...fields }))
  expect(await made.api.call()).toEqual([200, 1])
  expect(made.endpoint.count).toBe(2)
  return made
}

/** A process whose token is attached to a scripted API. */
export interface AttachedProcess extends Process {
  readonly api: ScriptedApi
}

/** Processes with a store, which share tokens of 10 days. */
export function attachedFleet(): {
  readonly fleet: Fleet
  readonly issued: Issued
  readonly start: () => AttachedProcess
} {
  const fleet = longLived()
  const issued = new Issued(fleet.endpoint, { expires_in: 10 * 86_400 })
  const start = (): AttachedProcess => {
    const process = fleet.start()
    return { ...process, api: new ScriptedApi(process.provider, issued) }
  }
  return { fleet, issued, start }
}
