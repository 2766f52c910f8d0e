/** What must hold in every race (contract 3 and 5). */
export const RULES = {
  inFlight: 'at most one token request in flight',
  margin: 'no token is handed out past its margin, on either clock',
  atOnce: 'no call waits while a valid token is there, or to be told of a cooldown',
  need: 'no renewal without need, nor for a token that has been replaced',
  twice: 'no call is made a third time',
  retries: 'no more attempts than `retries` says',
  cooldown: 'cooldowns are kept',
  ration: 'rations are kept',
  settles: 'every call settles',
  signals: 'an aborted call ends at once, with the reason of its signal',
  errors: 'callers get errors of this package, each one of its own',
  closed: 'after `close()` nobody waits, and nobody gets or asks for a token',
  recovery: 'a caller without a token has the endpoint asked, and gets one when all is well again',
  rest: 'no timer is left',
  unhandled: 'no unhandled rejection',
} as const

export type Rule = keyof typeof RULES
