import { attachAuth } from 'merchant-auth/axios'
import { axiosInstance, setConfig } from './generated/kubb/.kubb/fetch.js'
import { environment, tokens } from './tokens.js'

attachAuth(axiosInstance, tokens)
setConfig({ baseURL: environment.apiUrls.merchant })
