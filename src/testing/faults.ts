/** The faults that a test can order, checked when they are ordered, and the queues in which they wait. */
import { validateHeaderName, validateHeaderValue } from 'node:http'
import * as z from 'zod/mini'
import { copied, copyOf } from '../checks.ts'
import { MAX_TIMER_MS } from '../clock.ts'
import { checked } from './checked.ts'
import type { SandboxTarget } from './recorded.ts'

/**
 * Something that goes wrong with one answer. "The usual answer" is the one that the request would have had; the
 * kinds that need it (`hang` at the body, `slow-body`, `truncated-body`, `huge-body`) let the token endpoint issue
 * a token and the APIs judge one. All other kinds answer alike whatever the request was.
 */
export type Fault =
  /** A status (200 to 599), with a `Retry-After` (seconds or a date), headers and a JSON body. Without `body`: none. */
  | {
      readonly kind: 'status'
      /** 200 to 599. */
      readonly status: number
      /** `Retry-After`: seconds, or a date as text. */
      readonly retryAfter?: number | string | undefined
      /** Further headers, by their names. */
      readonly headers?: Readonly<Record<string, string>> | undefined
      /** What JSON can hold. */
      readonly body?: unknown
    }
  /** Nothing comes, or (`at: 'body'`) the headers and half of the usual answer and then nothing. By default `headers`. */
  | {
      readonly kind: 'hang'
      /** In the place of what nothing comes: the headers, or the second half of the body. */
      readonly at?: 'headers' | 'body' | undefined
    }
  /** The connection is reset (RST) instead of an answer. */
  | { readonly kind: 'reset' }
  /** The usual answer, dripped over so many ms (0 to 2^31-1). The headers come at once. */
  | {
      readonly kind: 'slow-body'
      /** ms, 0 to 2^31-1. */
      readonly durationMs: number
    }
  /** The usual answer, but half of it is missing when the connection is closed. */
  | { readonly kind: 'truncated-body' }
  /**
   * Status 200, and JSON of so many `bytes` (1 to 2^53-1, after decompression; by default 10 MiB) that its length
   * alone is wrong with it: the usual answer, filled up (and never cut). No Content-Length says so beforehand.
   */
  | {
      readonly kind: 'huge-body'
      /** How many, after decompression. */
      readonly bytes?: number | undefined
      /** Whether it is compressed on its way; by default not. */
      readonly gzip?: boolean | undefined
    }
  /** Any JSON, with status 200 or another. */
  | {
      readonly kind: 'json'
      /** What JSON can hold. */
      readonly body: unknown
      /** 200 to 599; by default 200. */
      readonly status?: number | undefined
    }
  /** Any text, with status 200 or another, as `text/plain; charset=utf-8` or another type. */
  | {
      readonly kind: 'text'
      /** The text. */
      readonly body: string
      /** 200 to 599; by default 200. */
      readonly status?: number | undefined
      /** By default `text/plain; charset=utf-8`. */
      readonly contentType?: string | undefined
    }
  /** A redirect, with status 307 or another (300 to 399). */
  | {
      readonly kind: 'redirect'
      /** `Location`: where it leads. */
      readonly location: string
      /** 300 to 399; by default 307. */
      readonly status?: number | undefined
    }

/** A fault whose turn has come. */
export interface OrderedFault {
  /** What `fail` returned. */
  readonly id: string
  readonly fault: Fault
}

const text = z.string('must be a string')
const STATUS = 'must be a status from 200 to 599'
const status = z.int(STATUS).check(z.gte(200, STATUS), z.lte(599, STATUS))
const REDIRECT = 'must be a status from 300 to 399'
const DURATION = 'must be a number of milliseconds from 0 to 2147483647'
const BYTES = 'must be a whole number of at least 1'
const HEADERS = 'must be an object of header names and values that HTTP allows'
const VALUE = 'must be the value of a header'
const TIMES = 'must be a whole number of at least 1, or Infinity'

const headerValue = text.check(z.refine((value) => isHeader('x', value), VALUE))
/** What an object has of its own. */
const own = z.transform((value: unknown): unknown => copyOf(value, []))
/** What is sent is what was given now. */
const json = z.pipe(
  z.pipe(z.transform(jsonOf), z.string('must be a value that JSON can hold')),
  z.transform((value): unknown => JSON.parse(value)),
)

const shape: z.ZodMiniType<Fault> = z.discriminatedUnion(
  'kind',
  [
    z.strictObject({
      kind: z.literal('status'),
      status,
      retryAfter: z.optional(z.union([z.number(), headerValue], 'must be seconds or a date')),
      headers: z.optional(
        z.pipe(
          own,
          z
            .record(text, text, HEADERS)
            .check(
              z.refine(
                (headers) => Object.entries(headers).every(([name, value]) => isHeader(name, value)),
                HEADERS,
              ),
            ),
        ),
      ),
      body: z.optional(json),
    }),
    z.strictObject({
      kind: z.literal('hang'),
      at: z.optional(z.enum(['headers', 'body'], "must be 'headers' or 'body'")),
    }),
    z.strictObject({ kind: z.literal('reset') }),
    z.strictObject({
      kind: z.literal('slow-body'),
      durationMs: z.number(DURATION).check(z.gte(0, DURATION), z.lte(MAX_TIMER_MS, DURATION)),
    }),
    z.strictObject({ kind: z.literal('truncated-body') }),
    z.strictObject({
      kind: z.literal('huge-body'),
      bytes: z.optional(z.int(BYTES).check(z.gte(1, BYTES))),
      gzip: z.optional(z.boolean('must be true or false')),
    }),
    z.strictObject({ kind: z.literal('json'), body: json, status: z.optional(status) }),
    z.strictObject({
      kind: z.literal('text'),
      body: text,
      status: z.optional(status),
      contentType: z.optional(headerValue),
    }),
    z.strictObject({
      kind: z.literal('redirect'),
      location: headerValue,
      status: z.optional(z.int(REDIRECT).check(z.gte(300, REDIRECT), z.lte(399, REDIRECT))),
    }),
  ],
  'must be one of the kinds of a fault',
)

const target: z.ZodMiniType<SandboxTarget> = z.enum(
  ['token', 'merchant', 'in-store'],
  "must be 'token', 'merchant' or 'in-store'",
)

const order = copied(
  z.strictObject({
    target,
    fault: z.pipe(own, shape),
    times: z.optional(
      z.custom<number>(
        (times) => times === Infinity || (Number.isSafeInteger(times) && Number(times) > 0),
        TIMES,
      ),
    ),
  }),
)

function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

function isHeader(name: string, value: string): boolean {
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return true
  } catch {
    return false
  }
}

/** Checks the name of a target. */
export function checkedTarget(value: unknown): SandboxTarget {
  return checked('The target', 'target', target, value)
}

/** The faults that wait for the requests of one environment, in order, for each target by itself. */
export class FaultQueues {
  readonly #queues = new Map<SandboxTarget, { readonly ordered: OrderedFault; left: number }[]>()
  #lastId = 0

  /** @throws ConfigurationError with everything that is wrong with the order */
  add(order_: unknown): string {
    const { target, fault, times = 1 } = checked('The fault', 'fault', order, order_)
    this.#lastId += 1
    const id = `fault-${this.#lastId}`
    const queue = this.#queues.get(target) ?? []
    this.#queues.set(target, [...queue, { ordered: { id, fault }, left: times }])
    return id
  }

  /** The fault for the request that has just arrived. */
  take(target: SandboxTarget): OrderedFault | undefined {
    const queue = this.#queues.get(target)
    const next = queue?.[0]
    if (next === undefined) return undefined
    next.left -= 1
    if (next.left === 0) queue?.shift()
    return next.ordered
  }

  clear(target: SandboxTarget | undefined): void {
    if (target === undefined) this.#queues.clear()
    else this.#queues.delete(target)
  }
}
