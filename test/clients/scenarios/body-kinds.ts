/** The bodies that callers can send, created for each call, and the clients that can send them. */
import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Call } from '../drivers.ts'

export interface BodyKind {
  readonly name: string
  readonly drivers: readonly string[]
  readonly nodeOnly?: boolean
  call(url: string): Call
}

const AXIOS = ['axios http', 'axios fetch']
const FETCH = ['axios fetch', 'fetch']
const ALL = ['axios http', 'axios fetch', 'fetch']
const WITH_UNDICI = [...ALL, 'axios function', 'undici']

interface Given {
  readonly drivers?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  readonly everywhere?: boolean
  /** Other options of the client. */
  readonly options?: object
}

/** The same body for all clients that can send it. */
function data(name: string, make: () => unknown, given: Given = {}): BodyKind {
  const { drivers = ALL, headers = {}, everywhere = false, options = {} } = given
  return {
    name,
    drivers,
    nodeOnly: !everywhere,
    call: (url) => ({
      url,
      method: 'POST',
      headers: { 'idempotency-key': 'k-1', ...headers },
      body: make(),
      options,
    }),
  }
}

const request = (name: string, make: (url: string) => Request, more: Partial<Call> = {}): BodyKind => ({
  name,
  drivers: ['fetch'],
  nodeOnly: name !== 'Request with a string',
  call: (url) => ({ url: make(url), ...more }),
})

const POST = { method: 'POST', headers: { 'idempotency-key': 'k-1' } }
const JSON_TYPE = { 'content-type': 'application/json' }
/** A larger buffer, of which bodies show a part, like slices of files and of pools. */
const memory = (): ArrayBuffer => new Uint8Array([0xee, 0xff, 0, 1, 2, 0xdd]).buffer
/** The text "a text that is packed" in gzip, as a constant because the output of zlib differs between versions. */
const GZIPPED = 'H4sIAAAAAAAAA0tUKEmtKFEoyUgsUcgsVihITM5OTQEAsYFerBUAAAA='
const nested = () => ({ order: { lines: [{ sku: 'ä', count: 2 }] } })

export function smallForm(): FormData {
  const form = new FormData()
  form.append('amount', '12 €')
  form.append('note', 'two\nlines')
  form.append('receipt', new File(['%PDF\r\n'], 'Beleg für "Ümit".pdf', { type: 'application/pdf' }))
  form.append('nothing', new File([], 'empty.bin'))
  return form
}

export function oddlyNamedForm(lineBreak: string): FormData {
  const form = new FormData()
  form.append(`a "name"${lineBreak}in two lines`, '1')
  return form
}

const everywhere = true

export const REPEATED: readonly BodyKind[] = [
  data('none', () => undefined, { drivers: WITH_UNDICI }),
  data('string, UTF-8', () => 'zwölf €, 十二', { drivers: WITH_UNDICI, everywhere }),
  data('string, empty', () => ''),
  data('URLSearchParams', () => new URLSearchParams({ sum: '12 €', 'a b': '&=' }), { everywhere }),
  data('Buffer', () => Buffer.from([0xff, 0, 1, 2]), { drivers: WITH_UNDICI, everywhere }),
  data('Buffer in a pool', () => Buffer.from(memory(), 1, 3), { drivers: WITH_UNDICI }),
  data('Buffer, gzip', () => Buffer.from(GZIPPED, 'base64'), { headers: { 'content-encoding': 'gzip' } }),
  // axios sends the whole buffer of a view, fetch only the part that the view shows.
  data('Uint8Array on a part', () => new Uint8Array(memory(), 1, 3), { drivers: WITH_UNDICI, everywhere }),
  data('Uint16Array', () => new Uint16Array(memory(), 2, 2), { drivers: WITH_UNDICI }),
  data('DataView', () => new DataView(memory(), 1, 4), { drivers: WITH_UNDICI }),
  data('ArrayBuffer', memory, { drivers: WITH_UNDICI, everywhere }),
  data('Blob', () => new Blob(['a ', 'blob'], { type: 'text/plain' }), { drivers: WITH_UNDICI, everywhere }),
  data('File', () => new File(['a,b\r\n'], 'orders.csv', { type: 'text/csv' })),
  data('FormData: text fields, a file, an empty file', smallForm, { everywhere }),
  data('FormData: quotes and CR LF in a name', () => oddlyNamedForm('\r\n')),
  data('FormData: quotes and LF in a name', () => oddlyNamedForm('\n'), { drivers: FETCH }),
  data('FormData, empty', () => new FormData()),
  data('FormData with the content type multipart/form-data', smallForm, {
    drivers: AXIOS,
    headers: { 'content-type': 'multipart/form-data' },
  }),
  data('object (JSON)', nested, { drivers: ['axios'], everywhere }),
  data('object as x-www-form-urlencoded', nested, {
    drivers: AXIOS,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  }),
  data('number (JSON)', () => 12, { drivers: AXIOS, headers: JSON_TYPE }),
  data("string from the caller's transformRequest", nested, {
    drivers: AXIOS,
    options: { transformRequest: [(order: object) => `order ${JSON.stringify(order)}`] },
  }),
  data("Buffer from the caller's transformRequest", () => 'text', {
    drivers: AXIOS,
    options: { transformRequest: [(text: string) => Buffer.from(text, 'utf16le')] },
  }),
  request('Request with a string', (url) => new Request(url, { ...POST, body: 'of a Request €' })),
  request(
    'Request with a Blob',
    (url) => new Request(url, { ...POST, body: new Blob(['b'], { type: 'text/a' }) }),
  ),
  request('Request with FormData', (url) => new Request(url, { ...POST, body: smallForm() })),
  request(
    'Request with a stream',
    (url) => new Request(url, { ...POST, body: new Blob(['of a ', 'stream']).stream(), duplex: 'half' }),
  ),
  request(
    "Request, with another body in fetch's init",
    (url) => new Request(url, { ...POST, body: 'not this one' }),
    {
      body: Buffer.from('but this one'),
    },
  ),
  request('Request without a body', (url) => new Request(url, POST)),
]

const withMethod = (method: string, drivers: readonly string[], body?: string): BodyKind => ({
  name: body === undefined ? method : `${method} with a body`,
  drivers,
  nodeOnly: true,
  call: (url) => ({ url, method, body, headers: { 'idempotency-key': 'k-1' } }),
})

export const METHODS: readonly BodyKind[] = [
  withMethod('HEAD', [...ALL, 'undici']),
  withMethod('GET', ['axios http'], 'a filter'),
  ...['PUT', 'PATCH', 'DELETE'].map((method) => withMethod(method, [...ALL, 'undici'], 'a body')),
]

const THIS_FILE = fileURLToPath(import.meta.url)
const chunks = () => [Buffer.from('one, '), Buffer.from('two, '), Buffer.from('three')]

async function* generated(): AsyncGenerator<Buffer> {
  yield* chunks()
}

/** Bodies that can be sent only once. */
export const ONCE: readonly BodyKind[] = [
  data('Node stream', () => Readable.from(chunks()), { drivers: WITH_UNDICI }),
  data('Node stream of bytes', () => Readable.from(chunks()), {
    drivers: ['axios http', 'undici'],
    everywhere,
  }),
  data('fs.ReadStream', () => createReadStream(THIS_FILE, { start: 0, end: 999 })),
  data('Node stream with a content-length', () => Readable.from(chunks()), {
    drivers: ['axios http'],
    headers: { 'content-length': '15' },
  }),
  data('web stream', () => new Blob(chunks()).stream(), { drivers: FETCH, everywhere }),
  {
    name: "Request, with a stream in fetch's init",
    drivers: ['fetch'],
    nodeOnly: true,
    call: (url) => ({
      url: new Request(url, { ...POST, body: 'not this one' }),
      body: new Blob(chunks()).stream(),
    }),
  },
  data('async generator', generated, { drivers: ['fetch', 'undici'] }),
  data('async iterable', () => ({ [Symbol.asyncIterator]: generated }), { drivers: ['fetch'] }),
  data('iterable', chunks, { drivers: ['undici'] }),
  data('object as multipart/form-data (postForm, putForm)', nested, {
    drivers: ['axios http'],
    headers: { 'content-type': 'multipart/form-data' },
  }),
  data("stream from the caller's transformRequest", () => 'text', {
    drivers: ['axios http'],
    options: { transformRequest: [() => Readable.from(chunks())] },
  }),
]

interface Changed {
  readonly make: () => unknown
  readonly drivers: readonly string[]
  change(body: never): unknown
}

/** Bodies that the caller changes while the call waits. */
export const CHANGED: Readonly<Record<string, Changed>> = {
  Buffer: {
    drivers: [...ALL, 'undici'],
    make: () => Buffer.from('as it was'),
    change: (body: Buffer) => body.fill('x'),
  },
  'Uint8Array on a part': {
    drivers: [...ALL, 'undici'],
    make: () => new Uint8Array(new Uint8Array([1, 2, 3, 4]).buffer, 1, 2),
    change: (body: Uint8Array) => body.fill(9),
  },
  Uint16Array: {
    drivers: ['fetch', 'undici'],
    make: () => new Uint16Array(memory(), 2, 2),
    change: (body: Uint16Array) => body.fill(9),
  },
  ArrayBuffer: {
    drivers: [...ALL, 'undici'],
    make: () => new Uint8Array([1, 2, 3, 4]).buffer,
    change: (body: ArrayBuffer) => new Uint8Array(body).fill(9),
  },
  'ArrayBuffer that is transferred to a worker': {
    drivers: ALL,
    make: () => new Uint8Array([1, 2, 3, 4]).buffer,
    change: (body: ArrayBuffer) => structuredClone(body, { transfer: [body] }),
  },
  URLSearchParams: {
    drivers: ALL,
    make: () => new URLSearchParams({ sum: '1' }),
    change: (body: URLSearchParams) => body.set('sum', '2'),
  },
  FormData: {
    drivers: ALL,
    make: () => {
      const form = new FormData()
      form.append('sum', '1')
      return form
    },
    change: (body: FormData) => body.set('sum', '2'),
  },
  object: {
    drivers: AXIOS,
    make: () => ({ order: { sum: 1 } }),
    change: (body: { order: { sum: number } }) => {
      body.order.sum = 2
    },
  },
}
