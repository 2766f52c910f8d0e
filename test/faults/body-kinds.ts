/** The bodies of the faults' tests: what a caller can give axios and fetch, and with which client it can be sent. */
import { createReadStream } from 'node:fs'
import { PassThrough, Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { AxiosRequestConfig } from 'axios'
import FormDataPackage from 'form-data'
import type { Client } from './body-calls.ts'

type FetchArguments = [input: string | URL | Request, init?: RequestInit]

/** A body, made anew for each call. A client that has none of it cannot send such a body at all. */
export interface BodyKind {
  readonly row: string
  readonly clients: readonly Client[]
  axios(): AxiosRequestConfig
  fetch(url: string): FetchArguments
}

const AXIOS = ['axios http', 'axios fetch'] as const
const FETCH = ['axios fetch', 'fetch'] as const
const ALL = ['axios http', 'axios fetch', 'fetch'] as const

/** The same data for all clients that can send it. */
function data(
  row: string,
  make: () => unknown,
  {
    clients = ALL,
    headers = {},
  }: { clients?: readonly Client[]; headers?: Readonly<Record<string, string>> } = {},
): BodyKind {
  return {
    row,
    clients,
    axios: () => ({ data: make(), headers }),
    fetch: (url) => [url, { body: make() as never, headers, duplex: 'half' }],
  }
}

function axiosOnly(
  row: string,
  axios: () => AxiosRequestConfig,
  clients: readonly Client[] = AXIOS,
): BodyKind {
  return { row, clients, axios, fetch: (url) => [url] }
}

function fetchOnly(row: string, fetch: BodyKind['fetch']): BodyKind {
  return { row, clients: ['fetch'], axios: () => ({}), fetch }
}

const POST = { method: 'POST', headers: { 'idempotency-key': 'k-1' } }
const JSON_TYPE = { 'content-type': 'application/json' }
/** A part of a larger memory, as slices of files and of pools are. */
const memory = (): ArrayBuffer => new Uint8Array([0xee, 0xff, 0, 1, 2, 0xdd]).buffer
/** "a text that is packed": written out, as versions of zlib differ in what they make of it. */
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

export const REPEATED: readonly BodyKind[] = [
  data('none', () => undefined),
  data('string, ASCII', () => 'a plain text'),
  data('string, UTF-8', () => 'zwölf €, 十二'),
  data('string, empty', () => ''),
  data('JSON text', () => '{"sum":"12 €"}', { headers: JSON_TYPE }),
  data('URLSearchParams', () => new URLSearchParams({ sum: '12 €', 'a b': '&=' })),
  data('Buffer', () => Buffer.from([0xff, 0, 1, 2])),
  data('Buffer in a pool', () => Buffer.from(memory(), 1, 3)),
  data('Buffer, gzip', () => Buffer.from(GZIPPED, 'base64'), {
    headers: { 'content-encoding': 'gzip' },
  }),
  // axios sends the whole memory of a view, fetch the part that the view shows.
  data('Uint8Array on a part', () => new Uint8Array(memory(), 1, 3)),
  data('Uint16Array', () => new Uint16Array(memory(), 2, 2)),
  data('DataView', () => new DataView(memory(), 1, 4)),
  data('ArrayBuffer', memory),
  data('Blob', () => new Blob(['a ', 'blob'], { type: 'text/plain' })),
  data('Blob without a type', () => new Blob([memory()])),
  data('File', () => new File(['a,b\r\n'], 'orders.csv', { type: 'text/csv' })),
  data('FormData: texts, a file, an empty file', smallForm),
  data('FormData: quotes and CR LF in a name', () => oddlyNamedForm('\r\n')),
  data('FormData: quotes and LF in a name', () => oddlyNamedForm('\n'), { clients: FETCH }),
  data('FormData, empty', () => new FormData()),
  axiosOnly('FormData, said to be multipart/form-data', () => ({
    data: smallForm(),
    headers: { 'content-type': 'multipart/form-data' },
  })),
  axiosOnly('object (JSON)', () => ({ data: nested() })),
  axiosOnly('array (JSON)', () => ({ data: [1, 'ä', null] })),
  axiosOnly('object as x-www-form-urlencoded', () => ({
    data: nested(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })),
  axiosOnly('number (JSON)', () => ({ data: 12, headers: JSON_TYPE })),
  axiosOnly('boolean (JSON)', () => ({ data: false, headers: JSON_TYPE })),
  axiosOnly("text of the caller's transformRequest", () => ({
    data: nested(),
    transformRequest: [(order: object) => `order ${JSON.stringify(order)}`],
  })),
  axiosOnly("Buffer of the caller's transformRequest", () => ({
    data: 'text',
    transformRequest: [(text: string) => Buffer.from(text, 'utf16le')],
  })),
  fetchOnly('Request with a string', (url) => [new Request(url, { ...POST, body: 'of a Request €' })]),
  fetchOnly('Request with a Blob', (url) => [
    new Request(url, { ...POST, body: new Blob(['of a Request'], { type: 'text/plain' }) }),
  ]),
  fetchOnly('Request with FormData', (url) => [new Request(url, { ...POST, body: smallForm() })]),
  fetchOnly('Request with a stream', (url) => [
    new Request(url, { ...POST, body: new Blob(['of a ', 'stream']).stream(), duplex: 'half' }),
  ]),
  fetchOnly("Request, and another body in fetch's init", (url) => [
    new Request(url, { ...POST, body: 'not this one' }),
    { body: Buffer.from('but this one') },
  ]),
]

/** Other methods than POST, with a body where the client allows one. */
export const METHODS: readonly BodyKind[] = [
  {
    row: 'HEAD',
    clients: ALL,
    axios: () => ({ method: 'HEAD' }),
    fetch: (url) => [url, { method: 'HEAD' }],
  },
  axiosOnly('GET with a body', () => ({ method: 'GET', data: 'a filter' }), ['axios http']),
  ...['PUT', 'PATCH', 'DELETE'].map(
    (method): BodyKind => ({
      row: `${method} with a body`,
      clients: ALL,
      axios: () => ({ method, data: 'a body' }),
      fetch: (url) => [url, { method, body: 'a body' }],
    }),
  ),
]

const THIS_FILE = fileURLToPath(import.meta.url)
const chunks = () => [Buffer.from('one, '), Buffer.from('two, '), Buffer.from('three')]

async function* generated(): AsyncGenerator<Buffer> {
  yield* chunks()
}

function packageForm(): FormDataPackage {
  const form = new FormDataPackage()
  form.append('amount', '12 €')
  form.append('receipt', Buffer.from('%PDF'), 'receipt.pdf')
  return form
}

/** Bodies that the first sending uses up. */
export const ONCE: readonly BodyKind[] = [
  data('Node stream', () => Readable.from(chunks())),
  data('fs.ReadStream', () => createReadStream(THIS_FILE, { start: 0, end: 999 })),
  data('Node stream through a PassThrough', () => Readable.from(chunks()).pipe(new PassThrough())),
  data('Node stream with a content-length', () => Readable.from(chunks()), {
    clients: ['axios http'],
    headers: { 'content-length': '15' },
  }),
  data('web stream', () => new Blob(chunks()).stream(), { clients: FETCH }),
  data('async generator', generated, { clients: ['fetch'] }),
  data('async iterable', () => ({ [Symbol.asyncIterator]: generated }), { clients: ['fetch'] }),
  data('form-data package', packageForm, { clients: ['axios http'] }),
  axiosOnly(
    'object as multipart/form-data (postForm, putForm)',
    () => ({ data: nested(), headers: { 'content-type': 'multipart/form-data' } }),
    ['axios http'],
  ),
  axiosOnly(
    "stream of the caller's transformRequest",
    () => ({ data: 'text', transformRequest: [() => Readable.from(chunks())] }),
    ['axios http'],
  ),
]
