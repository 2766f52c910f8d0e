import { describe, expect, it } from 'vitest'
import { destinationsOf } from '../src/destinations.ts'

const M = 'https://api.example/merchant'
const S = 'https://api.example:8443/in-store/'
const destinations = destinationsOf({
  authUrl: 'https://auth.example',
  audience: 'https://api.example',
  apiUrls: [M, S, 'https://api.example/merchant/inner', 'http://localhost:3000'],
})

describe('a URL that may have the token', () => {
  it.each([
    ['https://api.example/merchant', M],
    ['https://api.example/merchant/', M],
    ['https://api.example/merchant?a=b', M],
    ['https://api.example/merchant#top', M],
    ['https://api.example/merchant/orders/1?a=/../x', M],
    ['https://api.example/merchant/a.b/c~d', M],
    ['https://api.example/merchant/a%20b', M],
    ['https://api.example/merchant/grün', M],
    ['https://api.example:443/merchant/orders', M],
    ['HTTPS://API.EXAMPLE/merchant/orders', M],
    ['https://api.example/x/../merchant/orders', M],
    ['https://api.example/merchant/x/%2e%2e/orders', M],
    ['https:\\\\api.example\\merchant\\orders', M],
    ['https://api.example/merchant/inner/1', 'https://api.example/merchant/inner'],
    ['https://api.example/merchant/innermost', M],
    ['https://api.example:8443/in-store/sales', S],
    ['https://api.example:8443/in-store', S],
    ['http://localhost:3000/anything', 'http://localhost:3000'],
    ['http://localhost:3000', 'http://localhost:3000'],
    ['https://api.example/merchant/orders?q=%2f%5c', M],
  ])('%s belongs to %s', (url, api) => {
    expect(destinations(url).api).toBe(api)
  })
})

describe('a URL that may not have the token', () => {
  it.each([
    'https://api.example',
    'https://api.example/',
    'https://api.example/merchants',
    'https://api.example/merchant.evil',
    'https://api.example/Merchant/orders',
    'https://api.example/merchant/../admin',
    'https://api.example/merchant/%2e%2e/admin',
    'https://api.example/merchant/.%2E/admin',
    'https://api.example/merchant/..\\admin',
    'https://api.example/merchant\\..\\admin',
    'https://api.example/merchant/.\t./admin',
    'https://api.example/merchant/.\n./admin',
    'https://api.example/merchant/a%2fb',
    'https://api.example/merchant/a%2Fb',
    'https://api.example/merchant/..%5cadmin',
    'https://api.example/merchant%2forders',
    'http://api.example/merchant/orders',
    'https://api.example:444/merchant/orders',
    'https://api.example:8443/merchant/orders',
    'https://api.example.evil.example/merchant/orders',
    'https://evil.example/merchant/orders',
    'https://evil.example/?https://api.example/merchant/orders',
    'https://api.example@evil.example/merchant/orders',
    'https://api.example\\@evil.example/merchant/orders',
    'http://localhost:30001/',
    '//api.example/merchant/orders',
    '/merchant/orders',
    'merchant',
    '',
    'data:text/plain,https://api.example/merchant',
  ])('%j', (url) => {
    expect(destinations(url).api).toBeUndefined()
  })
})

describe('user info', () => {
  it.each(['https://u:p@api.example/', 'https://u@api.example/', 'https://:p@api.example/'])(
    'is found in %s',
    (url) => expect(destinations(url).hasUserInfo).toBe(true),
  )

  it.each([
    'https://api.example/a@b',
    'https://api.example/?a=b@c',
    'https://@api.example/',
    'not@a url',
    '/x',
  ])('is not found in %s', (url) => expect(destinations(url).hasUserInfo).toBe(false))
})
