/** A NestJS application, compiled with the options that `nest new` writes: CommonJS, as its package.json has no type. */
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { HttpModule, HttpService } from '@nestjs/axios'
import { Inject, Injectable, Module, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { AxiosError } from 'axios'
import { createTokenProvider, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { type Sandbox, startSandbox } from 'merchant-auth/testing'
import { firstValueFrom } from 'rxjs'

let sandbox: Sandbox

@Injectable()
class Orders implements OnModuleInit, OnApplicationShutdown {
  @Inject(HttpService) private readonly http!: HttpService
  private tokens?: TokenProvider

  onModuleInit(): void {
    const { environment, clientId, clientSecret } = sandbox.test
    this.tokens = createTokenProvider({ environment, clientId, clientSecret })
    attachAuth(this.http.axiosRef, this.tokens)
  }

  async onApplicationShutdown(): Promise<void> {
    await this.tokens?.close()
  }

  async status(): Promise<number> {
    return (await firstValueFrom(this.http.get(`${sandbox.test.merchantUrl}/orders`))).status
  }
}

@Module({ imports: [HttpModule], providers: [Orders] })
class AppModule {}

async function main(): Promise<void> {
  sandbox = await startSandbox()
  const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'] })
  const orders = app.get(Orders)
  assert.equal(await orders.status(), 200)
  sandbox.test.revoke()
  assert.equal(await orders.status(), 200)
  sandbox.test.fail('merchant', { kind: 'status', status: 500 })
  await assert.rejects(orders.status(), (error) => error instanceof AxiosError && error.status === 500)
  assert.equal(sandbox.test.counts.token, 2)
  await app.close()
  await sandbox.close()
  console.log('done')
}

main()
