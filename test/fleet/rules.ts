/** What must hold in every fleet (contract 3, 5.7 and 7; issue: one token for the whole fleet). */
export const RULES = {
  holder: 'no two processes hold the lease at once, and none holds it for longer than `timeoutMs`',
  fence: 'whoever does not hold the lease (any more) changes nothing',
  lifetime: 'no two holders write a token for the same lifetime, unless a lease ran out',
  order: 'no older token ever replaces a newer one',
  outlive: 'no entry outlives its token, and nobody thinks that a token lives longer than it does',
  removal: 'only a refused token is taken out',
  turn: 'nobody asks before his turn: with the lease, without Redis, or after the time of a lease',
  need: 'nobody asks while a token is there that he could have taken',
  notice: 'whoever waits for a token sees it within 100 ms of his own time',
  alone: 'where Redis fails, the process goes on by itself',
  inFlight: 'at most one token request of a process in flight',
  margin: 'no token is handed out past its margin, whoever got it and whatever the clocks say',
  refused: 'nobody gets a token back that he saw refused',
  ration: 'while Redis is well, a fleet renews what an API refuses at once, then 1 s later, then doubling',
  settles: 'every call settles',
  wait: 'nobody waits for longer than a lease with a little grace, a token request and some operations',
  failure: 'no call fails while the token endpoint is well',
  errors: 'callers get errors of this package',
  one: 'when all is well again, a fleet without a token makes one token request',
  renewal: 'when all is well again, a refused token is renewed once for the fleet',
  shared: 'when all is well again, everybody gets the same token, whatever became of the last one',
  closed: 'after `close()` nobody waits, and nobody gets or asks for a token',
  rest: 'whoever has nothing to do has no lease, and no timer after `close()`, which waits for the last command',
  unhandled: 'no unhandled rejection',
} as const

export type Rule = keyof typeof RULES
