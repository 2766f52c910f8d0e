/** A NestJS application, compiled with the options of `nest new`: CommonJS, because its package.json has no `type`. */
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { type BeforeApplicationShutdown, Inject, Injectable, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Test } from '@nestjs/testing'
import { AxiosError } from 'axios'
import type { TokenProvider } from 'merchant-auth'
import { createStaticTokenProvider, type Sandbox, startSandbox } from 'merchant-auth/testing'
import { TOKENS } from './merchant-auth.module'
import { Orders, OrdersModule } from './orders.module'

/** Makes a call after the modules were destroyed, like a request that is still in flight. */
@Injectable()
class LastOrder implements BeforeApplicationShutdown {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  async beforeApplicationShutdown(): Promise<void> {
    await this.orders.place(1400)
  }
}

@Module({ imports: [OrdersModule], providers: [LastOrder] })
class AppModule {}

async function main(): Promise<void> {
  const sandbox = await startSandbox()
  const { environment, clientId, clientSecret } = sandbox.test
  const { merchant, inStore } = environment.apiUrls
  Object.assign(process.env, {
    MERCHANT_AUTH_URL: environment.authUrl,
    MERCHANT_AUTH_AUDIENCE: environment.audience,
    MERCHANT_AUTH_API_URLS: `merchant=${merchant},inStore=${inStore}`,
    MERCHANT_AUTH_CLIENT_ID: clientId,
    MERCHANT_AUTH_CLIENT_SECRET: clientSecret,
  })
  await overridesProvider(sandbox)
  await callsAndShutsDown(sandbox)
}

/** A test of the application overrides the provider. */
async function overridesProvider(sandbox: Sandbox): Promise<void> {
  const value = 'static'
  const tokens = createStaticTokenProvider({ environment: sandbox.test.environment, value })
  const builder = Test.createTestingModule({ imports: [AppModule] })
  const testing = await builder.overrideProvider(TOKENS).useValue(tokens).compile()
  await assert.rejects(
    testing.get(Orders).place(1200),
    (error) => error instanceof AxiosError && error.status === 401,
  )
  assert.equal(sandbox.test.counts.token, 0)
}

async function callsAndShutsDown(sandbox: Sandbox): Promise<void> {
  const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'] })
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
