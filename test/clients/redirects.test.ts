import { describe } from 'vitest'
import { conform, conformWith } from './conform.ts'
import { PLAIN_FETCH, PLAIN_HTTP } from './drivers.ts'
import { REDIRECTS } from './scenarios/redirects.ts'

const isRenewal = ({ group }: { group: string }): boolean => group.startsWith('A 401')

describe('redirects of an API', () => {
  conform(REDIRECTS)
  conformWith(
    [PLAIN_HTTP, PLAIN_FETCH],
    REDIRECTS.filter((scenario) => !isRenewal(scenario)),
  )
})
