// A request as a line: its columns, its colours, its length, and nothing in it that could steer a terminal.
import { PassThrough } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { jsonLine, RequestLines, type RequestSeen } from '../../src/cli/sandbox-lines.ts'
import type { SandboxRequest } from '../../src/testing/index.ts'

const AT = new Date(2026, 10, 21, 3, 4, 5, 6).getTime()

const seen = (request: Partial<SandboxRequest>, more: Partial<RequestSeen> = {}): RequestSeen => ({
  request: { id: 1, at: AT, method: 'GET', path: '/merchant', headers: {}, durationMs: 1.5, ...request },
  environment: 'test',
  ...more,
})

const plain = () => new RequestLines(new PassThrough(), 'test')

describe('a line', () => {
  it('has columns under each other', () => {
    const lines = plain()
    const jti = '0123abcd-0000-4000-8000-000000000000'
    expect(
      lines.line(seen({ target: 'token', method: 'POST', path: '/oauth/token', status: 200, jti })),
    ).toBe('03:04:05.006  token     POST    /oauth/token              200      2 ms   token 0123abcd issued')
    expect(lines.line(seen({ target: 'in-store', status: 401, jti, durationMs: 12_345, error: 'x' }))).toBe(
      '03:04:05.006  in-store  GET     /merchant                 401  12345 ms   token 0123abcd, x',
    )
  })

  it('says so where the client left before an answer', () => {
    expect(plain().line(seen({}))).toMatch(/ {2}--- {6}2 ms {3}the client left$/)
    expect(plain().line(seen({ fault: 'fault-1' }, { fault: 'hang' }))).toMatch(
      / {2}--- {6}2 ms {3}fault hang$/,
    )
  })

  it('ends with its figures where there is nothing more to say', () => {
    expect(plain().line(seen({ status: 200 }))).toMatch(/ 2 ms$/)
  })

  it.each([
    [200, '32'],
    [307, '36'],
    [404, '33'],
    [503, '31'],
    [undefined, '35'],
  ])('has status %s in the colour %s, where stderr is a terminal', (status, colour) => {
    const stderr = Object.assign(new PassThrough(), { isTTY: true, getColorDepth: () => 4 })
    const request = seen(status === undefined ? {} : { status })
    const before = { NO_COLOR: process.env['NO_COLOR'], FORCE_COLOR: process.env['FORCE_COLOR'] }
    for (const name of Object.keys(before)) delete process.env[name]
    const line = new RequestLines(stderr, 'test').line(request)
    for (const [name, value] of Object.entries(before)) if (value !== undefined) process.env[name] = value
    expect(line).toContain(`\u001b[${colour}m${status ?? '---'}\u001b[39m`)
    expect(stripVTControlCharacters(line)).toBe(plain().line(request))
  })

  it('is bounded, and on one line without control characters, whatever came', () => {
    const foreign = `\u001b[2J\u009b31m\r\n\u2028\u202e${'x'.repeat(20_000)}`
    const request = {
      method: foreign,
      path: foreign,
      error: foreign,
      errorDescription: foreign,
      fault: 'fault-1',
    }
    const line = plain().line(seen(request, { fault: foreign }))
    expect(line.length).toBeLessThan(320)
    expect(line).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u)
  })
})

describe('a JSON line', () => {
  it('is ASCII, and has everything as it came', () => {
    const path = '/merchant/\u001b[2J\u009b31m\n\u2028é'
    const line = jsonLine(seen({ path, status: 200, durationMs: 1.23456 }))
    expect(line).toMatch(/^[\x20-\x7e]+$/)
    expect(JSON.parse(line)).toEqual({
      time: new Date(AT).toISOString(),
      environment: 'test',
      id: 1,
      method: 'GET',
      path,
      status: 200,
      durationMs: 1.235,
    })
  })
})
