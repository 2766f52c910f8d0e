import axios from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { client } from './generated/hey-api-axios/client.gen.js'
import { environment, tokens } from './tokens.js'

const api = axios.create()
attachAuth(api, tokens)
client.setConfig({ baseURL: environment.apiUrls.merchant, axios: api })
