// Which bodies can be sent a second time with the same bytes, and what is kept of them for it (contract 5.5).
import { PassThrough } from 'node:stream'
import FormDataPackage from 'form-data'
import { describe, expect, it } from 'vitest'
import { boundaryOf, canSendAgain, multipartBlob, snapshotOf } from '../../src/attach/body.ts'

async function* generated() {
  yield 'x'
}

describe('a body', () => {
  it.each<[string, unknown, boolean]>([
    ['undefined', undefined, true],
    ['null', null, true],
    ['an empty string', '', true],
    ['a string', 'text', true],
    ['a Buffer', Buffer.from('x'), true],
    ['a Uint8Array', new Uint8Array(2), true],
    ['a Float64Array', new Float64Array(2), true],
    ['a DataView', new DataView(new ArrayBuffer(2)), true],
    ['an ArrayBuffer', new ArrayBuffer(2), true],
    ['a SharedArrayBuffer', new SharedArrayBuffer(2), true],
    ['a Blob', new Blob(['x']), true],
    ['a File', new File(['x'], 'x'), true],
    ['FormData', new FormData(), true],
    ['URLSearchParams', new URLSearchParams('a=b'), true],
    ['a number', 12, false],
    ['a boolean', false, false],
    ['a symbol', Symbol('x'), false],
    ['a function', () => 'x', false],
    ['an object', { a: 1 }, false],
    ['an array', ['a'], false],
    ['a Date', new Date(0), false],
    ['a Node stream', new PassThrough(), false],
    ['a web stream', new Blob(['x']).stream(), false],
    ['an async generator', generated(), false],
    [
      'an async iterable that says it is a Blob',
      { [Symbol.toStringTag]: 'Blob', [Symbol.asyncIterator]: generated },
      false,
    ],
    [
      'a stream that says it is FormData',
      Object.assign(new PassThrough(), { [Symbol.toStringTag]: 'FormData' }),
      false,
    ],
    ['a form of the form-data package', new FormDataPackage(), false],
    ['what says it is a Blob', { [Symbol.toStringTag]: 'Blob' }, true],
    ['what says it is a Blob of another kind', { [Symbol.toStringTag]: 'BlobLike' }, false],
  ])('can be sent again or not: %s', (_, body, again) => {
    expect(canSendAgain(body)).toBe(again)
  })
})

describe('what is kept of a body', () => {
  it.each<[string, () => { buffer: ArrayBuffer; body: unknown; kept: unknown }]>([
    [
      'a Buffer',
      () => {
        const buffer = new Uint8Array([1, 2, 3, 4]).buffer
        return { buffer, body: Buffer.from(buffer, 1, 2), kept: Buffer.from([2, 3]) }
      },
    ],
    [
      'a Uint8Array',
      () => {
        const buffer = new Uint8Array([1, 2, 3, 4]).buffer
        return { buffer, body: new Uint8Array(buffer, 1, 2), kept: new Uint8Array([2, 3]) }
      },
    ],
    [
      'a Uint16Array',
      () => {
        const buffer = new Uint8Array([1, 2, 3, 4]).buffer
        return { buffer, body: new Uint16Array(buffer, 2, 1), kept: new Uint8Array([3, 4]) }
      },
    ],
    [
      'a DataView',
      () => {
        const buffer = new Uint8Array([1, 2, 3, 4]).buffer
        return { buffer, body: new DataView(buffer, 2), kept: new Uint8Array([3, 4]) }
      },
    ],
    [
      'a view of a class of the caller’s own',
      () => {
        class Packet extends Uint8Array {
          constructor(kind: number) {
            super(2)
            this[0] = kind
          }
        }
        const body = new Packet(7)
        return { buffer: body.buffer as ArrayBuffer, body, kept: new Uint8Array([7, 0]) }
      },
    ],
    [
      'an ArrayBuffer',
      () => {
        const buffer = new Uint8Array([1, 2, 3, 4]).buffer
        return { buffer, body: buffer, kept: new Uint8Array([1, 2, 3, 4]).buffer }
      },
    ],
  ])('is the bytes that it shows, whatever becomes of them: %s', (_, make) => {
    const { buffer, body, kept } = make()
    const snapshot = snapshotOf(body as never)
    new Uint8Array(buffer).fill(9)
    expect(snapshot).toStrictEqual(kept)
  })

  it('is a copy of URLSearchParams, and one form for all sends', async () => {
    const params = new URLSearchParams('a=b')
    const kept = snapshotOf(params)
    params.set('a', 'c')
    expect(kept).toBeInstanceOf(URLSearchParams)
    expect(String(kept)).toBe('a=b')
    const form = new FormData()
    form.append('a', 'b')
    const blob = snapshotOf(form) as Blob
    form.append('c', 'd')
    expect(blob.type).toMatch(/^multipart\/form-data; boundary=merchant-auth-[\da-f-]{36}$/)
    expect(await blob.text()).toContain('name="a"')
    expect(await blob.text()).not.toContain('name="c"')
  })

  it.each([['a text'], [new Blob(['x'])], [new Blob(['x']).stream()]])(
    'is itself where nothing can change it: %o',
    (body) => {
      expect(snapshotOf(body)).toBe(body)
    },
  )
})

describe('a form as bytes', () => {
  it('is to the letter what the HTML standard says', async () => {
    const form = new FormData()
    form.append('plain', 'one\ntwo\rthree\r\nfour')
    form.append('a "b"\n\nc\rd', '')
    form.append('typed', new File(['%PDF'], 'a "b"\n\n"c"\r\r.pdf', { type: 'application/pdf' }))
    form.append('bare', new File(['\n'], 'x.bin'))
    const blob = multipartBlob(form, 'the-boundary')
    expect(blob.type).toBe('multipart/form-data; boundary=the-boundary')
    expect(await blob.text()).toBe(
      [
        '--the-boundary',
        'Content-Disposition: form-data; name="plain"',
        '',
        'one\r\ntwo\r\nthree\r\nfour',
        '--the-boundary',
        'Content-Disposition: form-data; name="a %22b%22%0D%0A%0D%0Ac%0D%0Ad"',
        '',
        '',
        '--the-boundary',
        'Content-Disposition: form-data; name="typed"; filename="a %22b%22%0A%0A%22c%22%0D%0D.pdf"',
        'Content-Type: application/pdf',
        '',
        '%PDF',
        '--the-boundary',
        'Content-Disposition: form-data; name="bare"; filename="x.bin"',
        'Content-Type: application/octet-stream',
        '',
        '\n',
        '--the-boundary--',
        '',
      ].join('\r\n'),
    )
  })

  it('has a boundary of its own', () => {
    expect(multipartBlob(new FormData()).type).not.toBe(multipartBlob(new FormData()).type)
  })
})

describe('the boundary in a Content-Type', () => {
  it.each<[string, string | undefined]>([
    ['multipart/form-data; boundary=abc', 'abc'],
    ['multipart/form-data;boundary=abc', 'abc'],
    ['  Multipart/Form-Data ;  Boundary=A-b-1', 'a-b-1'],
    ['multipart/form-data; boundary="a b:c"', 'a b:c'],
    ['multipart/form-data; boundary=abc ', 'abc'],
    ['multipart/form-data; boundary=abc; charset=utf-8', 'abc'],
    ['multipart/form-data; charset=utf-8; boundary=abc', 'abc'],
    ['multipart/form-data; charset=utf-8;boundary=abc', 'abc'],
    ['multipart/form-data', undefined],
    ['multipart/form-data; charset=utf-8', undefined],
    ['multipart/form-data; boundary=', undefined],
    ['multipart/form-data; x-boundary=abc', undefined],
    ['multipart/mixed; boundary=abc', undefined],
    ['x-multipart/form-data; boundary=abc', undefined],
    ['multipart/form-data-x; boundary=abc', undefined],
    ['', undefined],
  ])('of %j is %j', (type, boundary) => {
    expect(boundaryOf(type)).toBe(boundary)
  })
})
