// What becomes of the body of a 401 that no caller gets: its connection must be free again (contract 5.5, 5.8).
import { PassThrough } from 'node:stream'
import { AxiosHeaders } from 'axios'
import { describe, expect, it } from 'vitest'
import { fakeApi } from './axios-fakes.ts'

/** A call whose first answer is a 401 with this body. Gives its status, and how often it was sent. */
async function refusedWith(data: unknown, headers: unknown = {}): Promise<[number, number]> {
  const { api, configs } = fakeApi([{ status: 401, data, headers }])
  const { status } = await api.get('/1')
  return [status, configs.length]
}

describe('the body of a 401 that is not handed out', () => {
  it.each(['0', '1', '65536', 65_536])('is read where it is a stream of %j bytes', async (length) => {
    const body = new PassThrough()
    expect(await refusedWith(body, { 'Content-Length': length })).toEqual([200, 2])
    expect([body.readableFlowing, body.destroyed]).toEqual([true, false])
  })

  it('is read where axios has made headers of its length', async () => {
    const body = new PassThrough()
    expect(await refusedWith(body, new AxiosHeaders({ 'content-length': '12' }))).toEqual([200, 2])
    expect([body.readableFlowing, body.destroyed]).toEqual([true, false])
  })

  it.each([
    ['longer than 64 KiB', { 'content-length': '65537' }],
    ['of a length that nobody tells', {}],
    ['of an empty length', { 'content-length': '' }],
    ['of a length that is no number', { 'content-length': 'long' }],
    ['without any headers', undefined],
  ])('is destroyed where it is a stream %s', async (_, headers) => {
    const body = new PassThrough()
    expect(await refusedWith(body, headers)).toEqual([200, 2])
    expect(body.destroyed).toBe(true)
  })

  it('is cancelled where it is a web stream', async () => {
    let cancelled = 0
    const body = new ReadableStream({
      cancel: () => {
        cancelled += 1
      },
    })
    expect(await refusedWith(body, { 'content-length': '1' })).toEqual([200, 2])
    expect(cancelled).toBe(1)
  })

  it('disturbs nobody where it cannot be cancelled', async () => {
    const locked = new ReadableStream()
    locked.getReader()
    expect(await refusedWith(locked)).toEqual([200, 2])
    const failing = new ReadableStream({ cancel: () => Promise.reject(new Error('not now')) })
    expect(await refusedWith(failing)).toEqual([200, 2])
  })

  it.each([
    ['null', null],
    ['a text', '{"resume":true}'],
    ['a number', 0],
    ['an object', { error: 'invalid_token' }],
    ['an object with the names of a stream’s methods', { resume: true, destroy: true, cancel: true }],
    ['an array', []],
    ['a Buffer', Buffer.from('refused')],
  ])('is left alone where it is %s', async (_, data) => {
    expect(await refusedWith(data, { 'content-length': '10' })).toEqual([200, 2])
    expect(await refusedWith(data)).toEqual([200, 2])
  })
})
