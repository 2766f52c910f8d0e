import { api } from './api.ts'

export interface Order {
  readonly id: string
  readonly amount: number
}

export async function findOrder(id: string): Promise<Order> {
  return (await api.get<Order>(`/orders/${id}`)).data
}

export async function placeOrder(amount: number): Promise<Order> {
  return (await api.post<Order>('/orders', { amount })).data
}
