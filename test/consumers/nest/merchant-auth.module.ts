import { HttpModule, HttpService } from '@nestjs/axios'
import { Inject, Module, type OnApplicationShutdown } from '@nestjs/common'
import { createTokenProvider, optionsFromEnv, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'

export const TOKENS = Symbol('TOKENS')

/** Called when the application starts: ConfigModule.forRoot() has read the .env file by then. */
const readOptions = () => optionsFromEnv(process.env, { apis: ['merchant'] })

/** Import it in the modules that call the APIs: they share this HttpService and one token. */
@Module({
  imports: [
    HttpModule.registerAsync({
      useFactory: () => ({ baseURL: readOptions().environment.apiUrls.merchant, timeout: 15_000 }),
    }),
  ],
  providers: [{ provide: TOKENS, useFactory: () => createTokenProvider(readOptions()) }],
  exports: [HttpModule, TOKENS],
})
export class MerchantAuthModule implements OnApplicationShutdown {
  constructor(
    @Inject(HttpService) http: HttpService,
    @Inject(TOKENS) private readonly tokens: TokenProvider,
  ) {
    attachAuth(http.axiosRef, tokens)
  }

  async onApplicationShutdown(): Promise<void> {
    await this.tokens.close()
  }
}
