import { HttpService } from '@nestjs/axios'
import { Inject, Injectable, Module } from '@nestjs/common'
import { firstValueFrom } from 'rxjs'
import { MerchantAuthModule } from './merchant-auth.module.js'

@Injectable()
export class Orders {
  constructor(@Inject(HttpService) private readonly http: HttpService) {}

  async place(amount: number): Promise<{ id: string }> {
    const { data } = await firstValueFrom(this.http.post<{ id: string }>('/orders', { amount }))
    return data
  }
}

@Module({ imports: [MerchantAuthModule], providers: [Orders], exports: [Orders] })
export class OrdersModule {}
