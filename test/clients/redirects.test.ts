import { conform } from './conform.ts'
import { REDIRECTS } from './scenarios/redirects.ts'

conform('redirects', REDIRECTS)
