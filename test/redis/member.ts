/** A separate process with a Redis client: it executes the commands that it reads, one word on each line. */
import { createInterface } from 'node:readline'
import { type AuthEvent, createTokenProvider } from '../../src/index.ts'
import { createRedisTokenStore } from '../../src/store/redis.ts'
import { type Client, connect, type Layout } from './clients.ts'

const [client, layout, ...ports] = process.argv.slice(2)
const connection = connect(client as Client, layout as Layout, ports.map(Number))
const store = createRedisTokenStore(connection.client)
let issued = 0

async function call(): Promise<void> {
  const emitted: string[] = []
  const onEvent = (event: AuthEvent): void => {
    if (event.type === 'store-failed') emitted.push('store-failed')
    if (event.type === 'token-acquired') emitted.push(event.source)
  }
  await using tokens = createTokenProvider({
    environment: {
      authUrl: 'https://auth.test.example',
      audience: 'test',
      apiUrls: ['https://test.example'],
    },
    clientId: 'client-1',
    clientSecret: 'swordfish',
    fetch: async () => {
      issued += 1
      return Response.json({ access_token: `a.b.${issued}`, expires_in: 1_000, token_type: 'Bearer' })
    },
    store,
    onEvent,
  })
  await tokens.getToken()
  console.log(emitted.join(' '))
}

for await (const word of createInterface(process.stdin)) {
  if (word === 'call') await call()
  if (word === 'quit') await connection.quit()
  if (word === 'close') connection.close()
}
