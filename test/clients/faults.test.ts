import { describe } from 'vitest'
import { conform } from './conform.ts'
import { FAULTS } from './scenarios/faults.ts'

describe('a call to an API that fails', () => conform(FAULTS))
