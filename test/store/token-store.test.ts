/** What a failure of a store is called in events and warnings. */
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { storeErrorCode } from '../../src/store/token-store.ts'

class ClientClosedError extends Error {}
class ErrorOfMine extends Error {}
class ManyErrors extends Error {}
class $TimeoutError extends Error {}

it.each<[what: string, error: unknown, code: string | undefined]>([
  ['a code', Object.assign(new Error('connect 10.0.0.1:6379'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
  ['a code of an object that is no error', { code: 'ERR_STORE_2' }, 'ERR_STORE_2'],
  ['a code before a word', Object.assign(new Error('READONLY You cannot'), { code: 'ERR' }), 'ERR'],
  ['the word of Redis', new Error("OOM command not allowed when used memory > 'maxmemory'."), 'OOM'],
  ['the word of Redis alone', new Error('NOAUTH'), 'NOAUTH'],
  ['the name of a class', new ClientClosedError('closed'), 'ClientClosedError'],
  ['the name of a class of another realm', runInNewContext('new RangeError("invalid")'), 'RangeError'],
  ['no other name', new ErrorOfMine('x'), undefined],
  ['no name of several', new ManyErrors('x'), undefined],
  ['no name with other characters', new $TimeoutError('x'), undefined],
  ['no sentence', new ErrorOfMine('A store failed'), undefined],
  ['no word with other characters', new ErrorOfMine('ABC-swordfish'), undefined],
  ['no word before a colon', new ErrorOfMine('SWORDFISHES: no'), undefined],
  ['no word in the middle', new ErrorOfMine('the code is ECONNREFUSED'), undefined],
  ['no word on the second line', new ErrorOfMine('lost\nECONNREFUSED'), undefined],
  ['no number', { code: 111 }, undefined],
  ['nothing of nothing', undefined, undefined],
  ['nothing of an object without a class', Object.create(null), undefined],
])('the code of a failure is %s', (_, error, code) => {
  expect(storeErrorCode(error)).toBe(code)
})
