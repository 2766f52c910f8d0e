/** A store that answers, or fails, in ways that nobody thought of. */
import { describe, expect, it } from 'vitest'
import { Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { answers, ERROR_TEXT } from '../store/memory-store.ts'

const fleetOf = (): { fleet: Fleet } & Process => {
  const fleet = new Fleet()
  return { fleet, ...fleet.start() }
}

describe('what a store answers that makes no sense', () => {
  it.each([
    ['a number', 5],
    ['a text', 'text'],
    ['true', true],
    ['an array', []],
    ['an empty object', {}],
    ['a value that is no text', { value: 5, ttlMs: 500_000 }],
    ['no time', { value: 'text' }],
    ['no value', { ttlMs: 500_000 }],
    ['null for the time', { value: 'text', ttlMs: null }],
    ['a text for the time', { value: 'text', ttlMs: '500000' }],
    ['NaN for the time', { value: 'text', ttlMs: Number.NaN }],
    ['no end', { value: 'text', ttlMs: Number.POSITIVE_INFINITY }],
    ['a text that nobody sealed', { value: 'text', ttlMs: 500_000 }],
    ['an empty text', { value: '', ttlMs: 500_000 }],
    ['a huge text', { value: 'x'.repeat(16_000_000), ttlMs: 500_000 }],
    ['a huge text with dots', { value: `${'eyJ9'.repeat(1_000_000)}....`, ttlMs: 500_000 }],
  ])('counts as absent, and is told: %s', async (_, answer) => {
    const { fleet, provider, events } = fleetOf()
    fleet.store.faults.get = answers(answer)
    await provider.getToken()
    await quiet()
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'set', 'release'])
    const told = { operation: 'get', code: 'UNREADABLE' }
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], [told]])
    fleet.store.faults.get = undefined
    const other = fleet.start()
    await other.provider.getToken()
    expect(sourcesOf(other.events)).toEqual(['store'])
  })

  it.each([
    ['undefined', undefined],
    ['null', null],
    ['an entry whose time is over', { value: 'text', ttlMs: 0 }],
    ['an entry whose time is long over', { value: 'text', ttlMs: -1 }],
  ])('is an absence like any other, and not told: %s', async (_, answer) => {
    const { fleet, provider, events } = fleetOf()
    fleet.store.faults.get = answers(answer)
    await provider.getToken()
    await quiet()
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], []])
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'set', 'release'])
  })

  describe('because it throws on being read', () => {
    const hostile = {
      get value(): string {
        throw new Error(ERROR_TEXT)
      },
      ttlMs: 500_000,
    }

    it('fails no call', async () => {
      const { fleet, provider } = fleetOf()
      fleet.store.faults.get = answers(hostile)
      await expect(provider.getToken()).resolves.toBeDefined()
    })

    it('is told', async () => {
      const { fleet, provider, events } = fleetOf()
      fleet.store.faults.get = answers(hostile)
      await provider.getToken()
      expect(failuresOf(events)[0]).toMatchObject({ operation: 'get' })
    })
  })
})

describe('an error that is no error', () => {
  it.each([
    ['undefined', undefined],
    ['null', null],
    ['a number', 5],
    ['a symbol as its code', { code: Symbol('ECONNREFUSED') }],
  ])('is told without a code: %s', async (_, error) => {
    const { fleet, provider, events } = fleetOf()
    fleet.store.faults.get = () => Promise.reject(error)
    await provider.getToken()
    expect(failuresOf(events)).toEqual([{ operation: 'get' }])
  })

  describe.each([
    ['whose code makes no text', { code: Object.create(null) as object }],
    [
      'whose message throws on being read',
      {
        get message(): string {
          throw new Error(ERROR_TEXT)
        },
      },
    ],
  ])('%s', (_, error) => {
    it('fails no call', async () => {
      const { fleet, provider } = fleetOf()
      fleet.store.faults.get = () => Promise.reject(error)
      await expect(provider.getToken()).resolves.toBeDefined()
    })

    it('is told without a code', async () => {
      const { fleet, provider, events } = fleetOf()
      fleet.store.faults.get = () => Promise.reject(error)
      await provider.getToken()
      expect(failuresOf(events)).toEqual([{ operation: 'get' }])
    })
  })
})
