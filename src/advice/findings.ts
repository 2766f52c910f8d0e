/** What to do about what `check` finds although nothing has failed. */
import type { Advice } from './failure.ts'

export type FindingKind =
  | 'not-this-user'
  | 'outside-profile'
  | 'unresolved-reference'
  | 'long-life'
  | 'low-quota'

export const FINDINGS: Readonly<Record<FindingKind, Advice>> = {
  'not-this-user': {
    advice:
      'Run check as the user that runs the service, who must own the directory, or be allowed to create it (chown, chmod 700).',
  },
  'outside-profile': {
    advice:
      "Check that no other user may write there, or name a directory in the user's profile, such as AppData\\Local\\my-service.",
  },
  'unresolved-reference': {
    advice:
      'Let the platform, or the tool of the vault, write the value in its place before the process starts: this package and ' +
      'Node.js read it as it is.',
  },
  'long-life': {
    advice:
      'If expires_in is a date or in milliseconds, correct it in the option fetch of the program ({endpoints}): a token is ' +
      'rarely meant to live for more than a year.',
  },
  'low-quota': {
    advice: 'Share one token between processes (docs/sharing.md): each check is a token request, too.',
  },
}
