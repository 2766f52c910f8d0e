/** Makes many clients that then do nothing, and weighs one. */
import type { Service } from '../contender.ts'
import { contenderOf } from '../contenders/index.ts'
import { providerOf } from '../contenders/ours.ts'
import { reportTo } from './apart.ts'
import { keptBytes } from './heap.ts'
import { createTransport } from './transport.ts'

export interface IdleJob {
  /** A contender's name, or one of the makers below. */
  readonly what: string
  readonly service: Service
  readonly count: number
}

export interface IdleFound {
  /** Bytes for each, before any has a token. */
  readonly newBytes: number
  /** Bytes for each, when each has got one. */
  readonly withTokenBytes: number
}

/** Something that is kept, and gets itself a token. */
interface Idle {
  getToken(): Promise<unknown>
}

const WARM_UP = 100
const AT_ONCE = 50

const makers: Readonly<Record<string, (service: Service) => Promise<Idle>>> = {
  'createTokenProvider alone': (service) => providerOf(service),
  'createTokenProvider and createAuthFetch': async (service) => {
    const { createAuthFetch } = await import('merchant-auth')
    const tokens = await providerOf(service)
    return Object.assign(createAuthFetch(tokens), { getToken: () => tokens.getToken() })
  },
}

async function makerOf(what: string): Promise<(service: Service) => Promise<Idle>> {
  const maker = makers[what]
  if (maker !== undefined) return maker
  const contender = contenderOf(what)
  const transport = await createTransport(contender.client, () => 200)
  return async (service) => {
    const client = await contender.create(service, transport)
    return Object.assign(client, { getToken: () => client.call('/orders') })
  }
}

async function make(count: number, one: (index: number) => Promise<void>): Promise<void> {
  for (let from = 0; from < count; from += AT_ONCE)
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - from) }, (_, n) => one(from + n)))
}

reportTo(async ({ what, service, count }: IdleJob): Promise<IdleFound> => {
  const maker = await makerOf(what)
  await make(WARM_UP, async () => {
    await (await maker(service)).getToken()
  })
  const kept: Idle[] = new Array(count)
  const before = await keptBytes()
  await make(count, async (index) => {
    kept[index] = await maker(service)
  })
  const created = await keptBytes()
  await make(count, async (index) => {
    await kept[index]?.getToken()
  })
  const withToken = await keptBytes()
  return { newBytes: (created - before) / count, withTokenBytes: (withToken - before) / count }
})
