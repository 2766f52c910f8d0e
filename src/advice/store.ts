/** What it means that a token store failed, by the code of its failure. */
import { type Advice, isSignOf, type Signs } from './failure.ts'

/** A kind of failure of a store. Of a failure without a code, the code is the empty text. */
export interface StoreFailure extends Advice, Signs {}

const OTHER_STORE = 'With another store, call its get by itself.'

/** What the codes of stores mean: directories, Redis, and what applies to both. */
export const STORE_FAILURES: Readonly<Record<string, StoreFailure>> = {
  'held-files': {
    codes: ['EBUSY', 'EACCES on Windows', 'EPERM on Windows'],
    advice:
      'Check which other program, such as a virus scanner, has the files open, and whether their permissions allow this user.',
  },
  'other-owner': {
    codes: ['EACCES', 'EPERM'],
    advice:
      'Let the user that runs the service own the directory and its files: chown -R, chmod 700. Often root has written them.',
  },
  'store-permission': {
    codes: ['ERR_ACCESS_DENIED'],
    advice:
      'Create the directory, and start the program with --allow-fs-read=DIRECTORY --allow-fs-write=DIRECTORY, as it has ' +
      '--permission.',
  },
  'no-room': {
    codes: ['ENOSPC', 'EDQUOT', 'EROFS'],
    advice:
      'Make room (disk, quota), or name a directory on another file system, such as a volume: this one is read-only (EROFS).',
  },
  'no-directory': {
    codes: ['ENOENT', 'ENOTDIR', 'EISDIR'],
    advice:
      'Correct the path of the directory, or create it for this user: a part of it is missing, or a file (ENOTDIR). Remove a ' +
      'directory in it that has the name of an entry (EISDIR).',
  },
  'damaged-entry': {
    codes: ['UNREADABLE'],
    advice:
      'Find the other program that writes there, if it happens again: the next token replaces a damaged entry.',
  },
  'no-redis-client': {
    codes: ['NO_REDIS_CLIENT'],
    advice:
      'Pass your client, store: createRedisTokenStore(client): this package does not connect to the URL in MERCHANT_AUTH_STORE.',
  },
  'closed-client': {
    codes: ['ClientClosedError', 'ClientOfflineError', 'MaxRetriesPerRequestError'],
    advice:
      "Call connect() of a client of node-redis at the start, and log the client's own event error, which says why it has no " +
      'connection (reconnectStrategy), or does not wait for one (disableOfflineQueue, maxRetriesPerRequest).',
  },
  'no-code': {
    codes: [''],
    advice:
      "With ioredis, log the client's own event error: it has no connection (enableOfflineQueue, retryStrategy, an unreachable " +
      `cluster), or a short commandTimeout. ${OTHER_STORE}`,
  },
  'unusable-client': {
    codes: ['TypeError'],
    advice:
      'Call connect() of a cluster or Sentinel of node-redis and await it, pass client.duplicate({ legacyMode: false }) or ' +
      `client.withTypeMapping({}) for strings, or update a Keyv before 5.5. ${OTHER_STORE}`,
  },
  'redis-rights': {
    codes: ['NOAUTH', 'WRONGPASS', 'NOPERM'],
    advice:
      'Check the user and the password of Redis, and the right to EVAL, GET, SET, DEL and PTTL on merchant-auth:*.',
  },
  'redis-error': {
    codes: ['ERR'],
    advice:
      'Read the text: redis-cli -u URL EVAL "return redis.call(\'GET\', KEYS[1])" 1 merchant-auth:x. A proxy may not know EVAL ' +
      'or, of ioredis 6, HELLO (protocol: 2); before Redis 7, it may be read-only or full.',
  },
  cluster: {
    codes: ['MOVED'],
    advice:
      'Use createCluster or Redis.Cluster: this is a Redis Cluster, and the client is one for a single node.',
    inCheck:
      'Use createCluster or Redis.Cluster in the service: this is a Redis Cluster, which the client of this command cannot ' +
      'use.',
  },
  'redis-in-transition': {
    codes: ['LOADING', 'CLUSTERDOWN', 'MASTERDOWN', 'TRYAGAIN', 'NOREPLICAS', 'BUSY'],
    advice:
      'Wait, and ask the operator of Redis if it does not pass: it starts, fails over, has lost nodes, or runs a long script.',
  },
  'redis-takes-no-writes': {
    codes: ['READONLY', 'OOM', 'MISCONF'],
    advice:
      'Connect to the primary (READONLY), or ask the operator of Redis: its memory (OOM) or its disk (MISCONF) is full.',
  },
  'lost-connection': {
    codes: ['ECONNRESET', 'EPIPE', 'SocketClosedUnexpectedlyError', '*CERT*'],
    advice:
      'If it happens each time, connect with TLS (rediss:): tls: { ca }, in node-redis socket: { tls: true, ca }. Now and ' +
      'then, a restart, a failover or a load balancer ends it.',
  },
  'slow-store': {
    codes: ['ETIMEDOUT'],
    advice:
      'Check whether the store is running, near enough, and wants TLS (rediss:). After idle times only, a NAT drops the ' +
      'connection: in ioredis 5, keepAlive: 30_000, socketTimeout: 10_000.',
  },
  'no-redis': {
    codes: ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'],
    advice: 'Check the host and the port in the URL, and whether Redis is running.',
  },
}

/** Where no kind matches. */
export const UNKNOWN_STORE_FAILURE: StoreFailure = {
  advice:
    'Check the store, as the user of the service: npx merchant-auth check --store PATH_OR_URL says more.',
  inCheck: 'Check its path and its files, or its URL (rediss: where the server wants TLS), and its log.',
}

/** What the code of a store's failure means. */
export function storeFailureOf(code = '', platform: NodeJS.Platform = process.platform): StoreFailure {
  const codes = platform === 'win32' ? [code, `${code} on Windows`] : [code]
  const rows = Object.values<StoreFailure>(STORE_FAILURES)
  return rows.find((row) => codes.some((one) => isSignOf(row, one))) ?? UNKNOWN_STORE_FAILURE
}
