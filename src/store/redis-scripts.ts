/** What runs inside Redis, each script atomically. Keys: the token's entry, and its lease. */

/** Runs a script on the node that has the keys, which are all in one slot. */
export type RunScript = (
  script: string,
  keys: readonly string[],
  args: readonly (string | number)[],
) => Promise<unknown>

/** An entry, and what remains of its time (ms). Something of another kind is an empty text, to be written over. */
export const READ = `
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' and value.err then
  if string.find(value.err, 'WRONGTYPE', 1, true) then return {'', 1} end
  return value
end
return {value, redis.call('PTTL', KEYS[1])}`

/** ARGV: value, ms. */
export const WRITE = `return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`

export const REMOVE = `return redis.call('DEL', KEYS[1])`

/**
 * Acquires the lease (https://redis.io/docs/latest/commands/set/#patterns). Sent a second time, because the answer to
 * the first was lost, it still yields it. A lease that the same process could not release is taken over.
 * ARGV: owner, ms, owner before or ''.
 */
export const LEASE = `
if redis.call('GET', KEYS[2]) == ARGV[3] then redis.call('DEL', KEYS[2]) end
if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return redis.call('GET', KEYS[2]) == ARGV[1] and 1 or 0`

/** Releases the lease, where it is still the owner's. ARGV: owner. */
export const RELEASE = `
return redis.call('GET', KEYS[2]) == ARGV[1] and redis.call('DEL', KEYS[2]) or 0`

/**
 * Writes for the owner of the lease alone: a process that lost it may have an older token than the one that is
 * there. How late the command runs shows in what is left of the lease: the entry's time is shortened by as much.
 * ARGV: owner, value, ms, what should be left of the lease (ms).
 */
export const WRITE_AS_OWNER = `
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
local late = math.max(0, tonumber(ARGV[4]) - redis.call('PTTL', KEYS[2]))
local ms = math.floor(tonumber(ARGV[3]) - late)
if ms < 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', string.format('%.0f', ms))
return 1`

/** Removes for the owner of the lease alone. ARGV: owner. */
export const REMOVE_AS_OWNER = `
return redis.call('GET', KEYS[2]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0`
