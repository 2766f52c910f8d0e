// How a fetch with the token follows redirects (contract 5.4, 5.8).
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { apiAt, scripted, useGround } from './calls.ts'

const ground = useGround()

describe('redirects', () => {
  it.each([301, 302, 303, 307, 308])('%i never take the token to another origin', async (code) => {
    await using other = await scripted((_, response) => void response.end('here'))
    await using api = await scripted(({ path }, response) => {
      if (path === '/api/to') response.writeHead(code, { location: `${other.url}/x` }).end()
      else if (path === '/api/401') response.writeHead(code, { location: '/api/x401' }).end()
      else response.writeHead(path.endsWith('401') ? 401 : 200).end('here')
    })
    const own = ground.provider({ environment: apiAt(ground.env, `${api.url}/api`) })
    const plain = createAuthFetch(own)
    const custom = createAuthFetch(own, { header: 'X-Custom' })
    expect(await (await plain(`${api.url}/api/to`)).text()).toBe('here')
    expect(other.seen.map(({ headers }) => headers.authorization)).toEqual([undefined])
    for (const redirect of ['follow', 'manual', undefined] as const) {
      const answer = await custom(`${api.url}/api/to`, redirect === undefined ? undefined : { redirect })
      expect([answer.status, answer.headers.get('location')]).toEqual([code, `${other.url}/x`])
    }
    expect((await custom(new Request(`${api.url}/api/to`))).status).toBe(code)
    expect(other.seen.length).toBe(1)
    expect((await plain(`${api.url}/api/to`, { redirect: 'manual' })).status).toBe(code)
    for (const each of [plain, custom]) {
      await expect(each(`${api.url}/api/to`, { redirect: 'error' })).rejects.toThrow(TypeError)
      await expect(each(new Request(`${api.url}/api/to`, { redirect: 'error' }))).rejects.toThrow(TypeError)
    }
    const before = ground.env.counts.token
    const refused = await plain(`${api.url}/api/401`)
    expect([refused.status, refused.redirected]).toEqual([401, true])
    expect(ground.env.counts.token).toBe(before)
  })
})
