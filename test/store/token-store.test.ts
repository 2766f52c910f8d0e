/** What a failure of a store is called in events and warnings. */
import { expect, it } from 'vitest'
import { storeErrorCode } from '../../src/store/token-store.ts'

class ClientClosedError extends Error {}
class ErrorOfMine extends Error {}
class ManyErrors extends Error {}
class $TimeoutError extends Error {}

it.each<[what: string, error: unknown, code: string | undefined]>([
  ['a code', Object.assign(new Error('x'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
  ['a code before a word', Object.assign(new Error('READONLY You cannot'), { code: 'ERR' }), 'ERR'],
  ['the word of Redis', new Error('READONLY You cannot write'), 'READONLY'],
  ['the name of a class', new ClientClosedError('closed'), 'ClientClosedError'],
  ['no other name', new ErrorOfMine('x'), undefined],
  ['no name of several', new ManyErrors('x'), undefined],
  ['no name with other characters', new $TimeoutError('x'), undefined],
  ['nothing of nothing', undefined, undefined],
  ['nothing of an object without a class', Object.create(null), undefined],
])('the code of a failure is %s', (_, error, code) => {
  expect(storeErrorCode(error)).toBe(code)
})
