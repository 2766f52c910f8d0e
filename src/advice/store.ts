/** What it means that a token store failed, by the code of its failure. */
import type { Failure } from './failure.ts'

/** A kind of failure of a store. Its step is always the store. */
export interface StoreFailure extends Omit<Failure, 'step' | 'isLasting'> {
  /** What matches them is the code; without a code, the empty text. The first kind that matches counts. */
  readonly signs: RegExp
  /** The codes, as the manual shows them. */
  readonly shown: string
  readonly advice: string
}

const OTHER_STORE = 'With another store, call its get by itself.'

/** What the codes of stores mean: directories, Redis, and what applies to both. */
export const STORE_FAILURES: readonly StoreFailure[] = [
  {
    kind: 'held-files',
    signs: /^EBUSY$|^E(?:ACCES|PERM) on Windows$/,
    shown: '`EBUSY`; on Windows `EACCES`, `EPERM`, too',
    advice:
      'Check which other program, such as a virus scanner or a backup, has the files of the directory open, and whether its ' +
      'permissions allow this user.',
  },
  {
    kind: 'other-owner',
    signs: /^E(?:ACCES|PERM)$/,
    shown: '`EACCES`, `EPERM`',
    advice:
      'Let the user that runs the service own the directory and its files: chown -R, chmod 700. Often root has written them.',
  },
  {
    kind: 'store-permission',
    signs: /^ERR_ACCESS_DENIED$/,
    shown: '`ERR_ACCESS_DENIED`',
    advice:
      'Start the program with --allow-fs-read=DIRECTORY --allow-fs-write=DIRECTORY: it runs with the permission model of Node.js.',
  },
  {
    kind: 'disk-full',
    signs: /^(?:ENOSPC|EDQUOT)$/,
    shown: '`ENOSPC`, `EDQUOT`',
    advice: 'Make room: the disk or the quota is full.',
  },
  {
    kind: 'read-only-disk',
    signs: /^EROFS$/,
    shown: '`EROFS`',
    advice: 'Name a directory on another file system, such as a volume: this one is read-only.',
  },
  {
    kind: 'not-a-directory',
    signs: /^(?:ENOTDIR|EISDIR)$/,
    shown: '`ENOTDIR`, `EISDIR`',
    advice:
      'Correct the path of the directory: a part of it is a file (ENOTDIR). Or remove the directory in it that has the name of an ' +
      'entry (EISDIR).',
  },
  {
    kind: 'no-directory',
    signs: /^ENOENT$/,
    shown: '`ENOENT`',
    advice:
      'Check the path of the directory, and create it for this user: it is missing, and cannot be created.',
  },
  {
    kind: 'damaged-entry',
    signs: /^UNREADABLE$/,
    shown: '`UNREADABLE`',
    advice:
      'Find the other program that writes there, if it happens again. A damaged entry counts as absent, and the next token ' +
      'replaces it.',
  },
  {
    kind: 'no-redis-client',
    signs: /^NO_REDIS_CLIENT$/,
    shown: '`NO_REDIS_CLIENT`',
    advice:
      'Pass your client, store: createRedisTokenStore(client): MERCHANT_AUTH_STORE is the URL of a Redis, which this package ' +
      'does not connect to.',
  },
  {
    kind: 'closed-client',
    signs: /^ClientClosedError$/,
    shown: '`ClientClosedError`',
    advice:
      'Call connect() of the client of node-redis at the start, or correct its reconnectStrategy: it never connected, or gave up.',
  },
  {
    kind: 'offline-client',
    signs: /^(?:ClientOfflineError|MaxRetriesPerRequestError)$/,
    shown: '`ClientOfflineError`, `MaxRetriesPerRequestError`',
    advice:
      "Log the Redis client's own event error, which says why it has no connection. It does not wait for one " +
      '(disableOfflineQueue, maxRetriesPerRequest).',
  },
  {
    kind: 'no-code',
    signs: /^$/,
    shown: 'no code',
    advice:
      "With ioredis, log the client's own event error: it has no connection (enableOfflineQueue: false, a retryStrategy that gave " +
      'up, a cluster that cannot be reached), or a short commandTimeout. ' +
      OTHER_STORE,
  },
  {
    kind: 'unusable-client',
    signs: /^TypeError$/,
    shown: '`TypeError`',
    advice:
      'Call connect() of a cluster or Sentinel of node-redis until it resolves, pass client.duplicate({ legacyMode: false }) or ' +
      'client.withTypeMapping({}) if a client does not return strings, and update a Keyv before 5.5. ' +
      OTHER_STORE,
  },
  {
    kind: 'redis-rights',
    signs: /^(?:NOAUTH|WRONGPASS|NOPERM)$/,
    shown: '`NOAUTH`, `WRONGPASS`, `NOPERM`',
    advice:
      'Check the user name and the password of Redis, and that this user may use EVAL, GET, SET, DEL and PTTL on merchant-auth:*.',
  },
  {
    kind: 'redis-error',
    signs: /^ERR$/,
    shown: '`ERR`',
    advice:
      'Read the text: redis-cli -u URL EVAL "return redis.call(\'GET\', KEYS[1])" 1 merchant-auth:x. The server, or a proxy in ' +
      'front of it, may not know EVAL or, with ioredis 6, HELLO (protocol: 2); before Redis 7 it can be any error of a script, such ' +
      'as read-only, full or a missing right.',
  },
  {
    kind: 'cluster',
    signs: /^MOVED$/,
    shown: '`MOVED`',
    advice:
      'Use createCluster or Redis.Cluster: this is a Redis Cluster, and the client is one for a single node.',
    inCheck:
      'Use createCluster or Redis.Cluster in the service: this is a Redis Cluster, and the client of this command, which is one ' +
      'for a single node, cannot check it.',
  },
  {
    kind: 'redis-in-transition',
    signs: /^(?:LOADING|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|NOREPLICAS|BUSY)$/,
    shown: '`LOADING`, `CLUSTERDOWN`, `MASTERDOWN`, `TRYAGAIN`, `NOREPLICAS`, `BUSY`',
    advice:
      'Wait, and ask the operator of Redis if it does not pass: it starts, fails over, has lost nodes, or runs a long script.',
  },
  {
    kind: 'redis-takes-no-writes',
    signs: /^(?:READONLY|OOM|MISCONF)$/,
    shown: '`READONLY`, `OOM`, `MISCONF`',
    advice:
      'Connect to the primary, not to a replica (READONLY), or ask the operator of Redis: its memory (OOM) or its disk (MISCONF) is full.',
  },
  {
    kind: 'lost-connection',
    signs: /^(?:ECONNRESET|EPIPE|SocketClosedUnexpectedlyError|[A-Z_]*CERT[A-Z_]*)$/,
    shown: '`ECONNRESET`, `SocketClosedUnexpectedlyError`, `…_CERT_…`',
    advice:
      'If it happens each time, connect with TLS (rediss:), and pass the certificate of its authority: tls: { ca }, in node-redis ' +
      'socket: { tls: true, ca }. Now and then, the connection was lost: a restart, a failover, a load balancer.',
  },
  {
    kind: 'slow-store',
    signs: /^ETIMEDOUT$/,
    shown: '`ETIMEDOUT`',
    advice:
      'Check whether the store is running, near enough, and wants TLS (rediss:): it hangs, or an operation before this one does. ' +
      'If it returns after idle times only, a NAT or a load balancer drops the connection: in ioredis 5, keepAlive: 30_000, ' +
      'socketTimeout: 10_000.',
  },
  {
    kind: 'no-redis',
    signs: /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/,
    shown: '`ECONNREFUSED`, `ENOTFOUND`, `EAI_AGAIN`, `EHOSTUNREACH`, `ENETUNREACH`',
    advice: 'Check the host and the port in the URL, and whether Redis is running.',
  },
]

/** Where no kind matches. */
export const UNKNOWN_STORE_FAILURE: Omit<StoreFailure, 'signs' | 'shown'> = {
  kind: 'unknown-store-failure',
  advice:
    'Check the store, as the user of the service: npx merchant-auth check --store PATH_OR_URL says more.',
  inCheck: 'Check its path and its files, or its URL (rediss: where the server wants TLS), and its log.',
}

/** What the code of a store's failure means. */
export function storeFailureOf(
  code: string | undefined = '',
  platform: NodeJS.Platform = process.platform,
): Omit<StoreFailure, 'signs' | 'shown'> {
  const signs = platform === 'win32' ? [code, `${code} on Windows`] : [code]
  return STORE_FAILURES.find((kind) => signs.some((sign) => kind.signs.test(sign))) ?? UNKNOWN_STORE_FAILURE
}
