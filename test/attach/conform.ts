/** The clients that each scenario runs with: `describe.each(CLIENTS)('$name', …)`. */
import { createAuthDispatch } from 'merchant-auth/undici'
import * as undici from 'undici'
import { AXIOS_FETCH, AXIOS_FUNCTION, AXIOS_HTTP, type Driver, FETCH, undiciDriver } from './drivers.ts'

export const UNDICI: Driver = undiciDriver('undici', undici as never, createAuthDispatch)
export const CLIENTS: readonly Driver[] = [AXIOS_HTTP, AXIOS_FETCH, AXIOS_FUNCTION, FETCH, UNDICI]
