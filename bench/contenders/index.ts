/** All clients under measurement, in the order of the tables: within each kind of client the floor first. */
import type { Contender } from '../contender.ts'
import { axiosAuthRefresh, axiosTokenInterceptor } from './axios-peers.ts'
import { auth0, badgateway, openidClient, simpleOauth2 } from './fetch-peers.ts'
import { axiosFloor, fetchFloor, undiciFloor } from './floors.ts'
import { naiveAxios, naiveFetch } from './naive.ts'
import { attachAuth, createAuthDispatch, createAuthFetch, createAuthInterceptor } from './ours.ts'
import { azure, google } from './own-client-peers.ts'

const all: readonly Contender[] = [
  axiosFloor,
  attachAuth,
  createAuthInterceptor,
  naiveAxios,
  axiosTokenInterceptor,
  axiosAuthRefresh,
  fetchFloor,
  createAuthFetch,
  naiveFetch,
  badgateway,
  simpleOauth2,
  openidClient,
  auth0,
  undiciFloor,
  createAuthDispatch,
  google,
  azure,
]

/** What the installed merchant-auth does not have yet is left out. */
export const contenders: readonly Contender[] = all.filter(
  (contender) => contender !== createAuthDispatch || isThere('merchant-auth/undici'),
)

/** @throws if there is none of that name. */
export function contenderOf(name: string): Contender {
  const found = contenders.find((contender) => contender.name === name)
  if (!found)
    throw new Error(`No contender is called ${name}: ${contenders.map((one) => one.name).join(', ')}`)
  return found
}

function isThere(entry: string): boolean {
  try {
    import.meta.resolve(entry)
    return true
  } catch {
    return false
  }
}
