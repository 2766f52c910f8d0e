/** HTTPS servers on loopback with self-signed certificates. */
import { createServer } from 'node:https'
import { generate } from 'selfsigned'
import { listening } from '../testing/calls.ts'

const DAY_MS = 24 * 60 * 60 * 1000

export interface Certificate {
  readonly key: string
  readonly cert: string
}

/** A self-signed certificate for a host; `from` and `to` are days from now. */
export async function certificate(
  host: string,
  [from, to]: readonly [number, number] = [-1, 30],
): Promise<Certificate> {
  const { private: key, cert } = await generate([{ name: 'commonName', value: host }], {
    keySize: 2048,
    algorithm: 'sha256',
    notBeforeDate: new Date(Date.now() + from * DAY_MS),
    notAfterDate: new Date(Date.now() + to * DAY_MS),
    extensions: [
      { name: 'basicConstraints', cA: true },
      { name: 'subjectAltName', altNames: [{ type: 2, value: host }] },
    ],
  })
  return { key, cert }
}

/** Starts a server that runs until the end of the test. Returns its port. */
export function startHttps(options: Certificate): Promise<number> {
  return listening(createServer(options))
}
