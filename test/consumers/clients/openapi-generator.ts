import axios from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { OrdersApi } from './generated/openapi-generator.js'
import { environment, tokens } from './tokens.js'

const api = axios.create()
attachAuth(api, tokens)
export const orders = new OrdersApi(undefined, environment.apiUrls.merchant, api)
