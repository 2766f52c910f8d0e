/** The Redis clients that the store works with, told apart by their shape: neither is imported. */
import type { EventEmitter } from 'node:events'

/** A client or cluster of node-redis (the package `redis`), as far as it is used here. */
export interface NodeRedisLike {
  /** Runs a Lua script. */
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  /** Whether it is connected, or connecting. */
  readonly isOpen: boolean
}

/** A client or cluster of ioredis, as far as it is used here. */
export interface IORedisLike {
  /** Runs a Lua script. */
  eval(script: string, keyCount: number, ...keysAndArguments: string[]): Promise<unknown>
  /** How far its connection is: `ready`, for example. */
  readonly status: string
}

/** Runs a script on the node that has the keys, which are all in one slot. */
export type RunScript = (
  script: string,
  keys: readonly string[],
  args: readonly (string | number)[],
) => Promise<unknown>

/** How a client runs scripts; undefined where it is neither of the two. */
export function scriptRunner(client: unknown): RunScript | undefined {
  if (isIORedis(client)) {
    return (script, keys, args) => client.eval(script, keys.length, ...keys, ...args.map(String))
  }
  if (isNodeRedis(client)) {
    return (script, keys, args) => client.eval(script, { keys: [...keys], arguments: args.map(String) })
  }
  return undefined
}

function isIORedis(client: unknown): client is IORedisLike {
  return has(client, 'eval') && has(client, 'call') && typeof Reflect.get(client, 'status') === 'string'
}

function isNodeRedis(client: unknown): client is NodeRedisLike {
  return (
    has(client, 'eval') && has(client, 'sendCommand') && typeof Reflect.get(client, 'isOpen') === 'boolean'
  )
}

/** Without a listener an error that node-redis emits would end the process. ioredis prints it. */
export function surviveErrors(client: object): void {
  if (isIORedis(client)) return
  const { listenerCount, on } = client as Partial<EventEmitter>
  if (listenerCount?.call(client, 'error') === 0) on?.call(client, 'error', () => {})
}

function has(client: unknown, name: string): client is object {
  return typeof client === 'object' && client !== null && typeof Reflect.get(client, name) === 'function'
}
