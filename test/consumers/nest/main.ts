/** A NestJS application, an ES module as `nest new` makes it, compiled with its options. */
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BeforeApplicationShutdown, type DynamicModule, Inject, Injectable } from '@nestjs/common'
import { ConfigModule } from '@nestjs/config'
import { NestFactory } from '@nestjs/core'
import { Test } from '@nestjs/testing'
import { AxiosError } from 'axios'
import type { TokenProvider } from 'merchant-auth'
import { createStaticTokenProvider, type Sandbox, startSandbox } from 'merchant-auth/testing'
import { TOKENS } from './merchant-auth.module.js'
import { Orders, OrdersModule } from './orders.module.js'

/** Makes a call after the modules were destroyed, like a request that is still in flight. */
@Injectable()
class LastOrder implements BeforeApplicationShutdown {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  async beforeApplicationShutdown(): Promise<void> {
    await this.orders.place(1400)
  }
}

class AppModule {}

/** The application, whose variables are in a `.env` file. */
function appModule(envFilePath: string): DynamicModule {
  const imports = [ConfigModule.forRoot({ envFilePath }), OrdersModule]
  return { module: AppModule, imports, providers: [LastOrder] }
}

async function main(): Promise<void> {
  const sandbox = await startSandbox()
  const { environment, clientId, clientSecret } = sandbox.test
  const { merchant, inStore } = environment.apiUrls
  const folder = mkdtempSync(join(tmpdir(), 'merchant-auth-nest-'))
  const file = join(folder, '.env')
  const variables = {
    MERCHANT_AUTH_URL: environment.authUrl,
    MERCHANT_AUTH_AUDIENCE: environment.audience,
    MERCHANT_AUTH_API_URLS: `merchant=${merchant},inStore=${inStore}`,
    MERCHANT_AUTH_CLIENT_ID: clientId,
    MERCHANT_AUTH_CLIENT_SECRET: clientSecret,
  }
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}\n`)
  writeFileSync(file, lines.join(''))
  try {
    await overridesProvider(sandbox, file)
    for (const name of Object.keys(variables)) delete process.env[name]
    await callsAndShutsDown(sandbox, file)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** A test of the application overrides the provider. */
async function overridesProvider(sandbox: Sandbox, file: string): Promise<void> {
  const value = 'static'
  const tokens = createStaticTokenProvider({ environment: sandbox.test.environment, value })
  const builder = Test.createTestingModule({ imports: [appModule(file)] })
  const testing = await builder.overrideProvider(TOKENS).useValue(tokens).compile()
  await assert.rejects(
    testing.get(Orders).place(1200),
    (error) => error instanceof AxiosError && error.status === 401,
  )
  assert.equal(sandbox.test.counts.token, 0)
}

async function callsAndShutsDown(sandbox: Sandbox, file: string): Promise<void> {
  const app = await NestFactory.createApplicationContext(appModule(file), { logger: ['error'] })
  app.enableShutdownHooks(['SIGTERM'], { useProcessExit: true })
  const orders = app.get(Orders)
  const tokens: TokenProvider = app.get(TOKENS)
  await orders.place(1200)
  sandbox.test.revoke()
  sandbox.test.clearRequests()
  await orders.place(1300)
  const sent = sandbox.test.requests('merchant').map(({ status, body }) => `${status} ${body}`)
  assert.deepEqual(sent, ['401 {"amount":1300}', '200 {"amount":1300}'])
  assert.equal(sandbox.test.counts.token, 2)

  assert.notEqual(tokens.currentToken(), undefined)
  process.once('exit', () => {
    const last = sandbox.test.requests('merchant').at(-1)
    assert.equal(`${last?.status} ${last?.body}`, '200 {"amount":1400}')
    assert.equal(tokens.currentToken(), undefined, 'SIGTERM did not close the provider')
    console.log('done')
  })
  process.kill(process.pid, 'SIGTERM')
}

main()
