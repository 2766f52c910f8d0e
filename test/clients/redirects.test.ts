import { describe } from 'vitest'
import { conform } from './conform.ts'
import { REDIRECTS } from './scenarios/redirects.ts'

describe('a call to an API that redirects', () => conform('redirects', REDIRECTS))
