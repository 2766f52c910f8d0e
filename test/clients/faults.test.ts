import { conform } from './conform.ts'
import { FAULTS } from './scenarios/faults.ts'

conform('clients', FAULTS)
