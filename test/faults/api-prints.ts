/** What the searches for tokens in callers' prints share: a scene that is played, and all that it leaves to print. */
import axios, { type AxiosAdapter, type AxiosInstance, type AxiosResponse } from 'axios'
import { expect, type TestContext } from 'vitest'
import { type Ground, rejectionOf } from '../attach/calls.ts'
import { findLeaks } from '../support/leaks.ts'
import { secrets } from '../support/recorded.ts'
import { type Client, TABLE } from './api-rig.ts'
import { tell } from './told.ts'

/** Something that happens to a caller of axios. */
export interface Scene {
  readonly row: string
  /** Plays it; `own` is axios' adapter that is tried. Yields the error or the answer that the caller gets, or several. */
  readonly play: (api: AxiosInstance, own: AxiosAdapter) => Promise<unknown>
  /** What callers get, or what callers of the http and of the fetch adapter get. */
  readonly expected: string | readonly [http: string, fetch: string]
}

export const GROUP = 'what callers get, and whether a print of it shows a token'
export const AXIOS = ['axios http', 'axios fetch'] as const

/** Each scene with each of the two adapters. */
export function eachPlayed(scenes: readonly Scene[]): [(typeof AXIOS)[number], string, Scene][] {
  return scenes.flatMap((scene) =>
    AXIOS.map((client): [(typeof AXIOS)[number], string, Scene] => [client, scene.row, scene]),
  )
}

export async function play(
  ground: Ground,
  [client, row, scene]: [(typeof AXIOS)[number], string, Scene],
  task: TestContext['task'],
): Promise<void> {
  const adapter = client === 'axios http' ? 'http' : 'fetch'
  const outcome = await scene.play(ground.api({ adapter }), axios.getAdapter(adapter))
  const { expected } = scene
  judge(outcome, typeof expected === 'string' ? expected : expected[adapter === 'http' ? 0 : 1], {
    task,
    client,
    row,
  })
}

/** Asserts what callers get and that no print of it shows a token, and tells it. */
export function judge(
  outcome: unknown,
  expected: string,
  { task, client, row }: { task: TestContext['task']; client: Client; row: string },
): void {
  const all = Array.isArray(outcome) ? outcome : [outcome]
  const named = all.map(nameOf)
  const counted = new Map<string, number>()
  for (const name of named) counted.set(name, (counted.get(name) ?? 0) + 1)
  const got = [...counted].map(([name, count]) => (count === 1 ? name : `${count} × ${name}`)).join(' and ')
  expect(got).toBe(expected)
  const leaks = all.flatMap(leaksOf)
  expect(leaks).toEqual([])
  const cell = `${got}; ${leaks.length || 'no'} token`
  tell(task, { table: TABLE, group: GROUP, row, column: client, cell })
}

/** Where a token shows in an error or an answer, and in each of its parts by itself. */
function leaksOf(outcome: unknown): string[] {
  expect(secrets.size).toBeGreaterThan(1) // the client's own and at least one token
  const { config, response, cause, headers, data, toJSON } = outcome as Record<string, unknown>
  const answer = (response ?? {}) as Record<string, unknown>
  const json = typeof toJSON === 'function' ? toJSON.call(outcome) : undefined
  const parts = [outcome, config, response, cause, headers, json, answer['config'], answer['headers']]
  for (const body of [data, answer['data']]) if (typeof body !== 'string') parts.push(body)
  return parts.filter((part) => part !== undefined).flatMap((part) => findLeaks(part, secrets))
}

function nameOf(outcome: unknown): string {
  const { code, name, status, response } = outcome as Record<string, unknown>
  if (outcome instanceof Request) return 'the Request'
  if (!(outcome instanceof Error)) return `status ${status}`
  const answered = (response as { status?: number } | undefined)?.status
  const called = typeof code === 'string' ? code : String(name)
  return answered === undefined ? called : `${called}, status ${answered}`
}

/** Reads an answer's stream, and yields what that ends with. */
export function readingFails({ data }: AxiosResponse): Promise<unknown> {
  return rejectionOf(
    (async () => {
      for await (const _ of data);
    })(),
  )
}
