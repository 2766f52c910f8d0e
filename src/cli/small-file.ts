/** Files that hold settings: read once, in bounds, and interruptibly, so that pipes and named pipes do, too. */
import { createReadStream } from 'node:fs'
import { ConfigurationError } from '../errors.ts'
import { untilAborted } from '../waiting.ts'

const MOST_BYTES = 64 * 1024

/**
 * The text of a file, without a byte order mark.
 *
 * @param option what names the file, for messages
 * @throws ConfigurationError where it cannot be read, is too large, or is no UTF-8
 */
export async function readSmallFile(file: string, option: string, signal: AbortSignal): Promise<string> {
  const failed = (reason: string): ConfigurationError =>
    new ConfigurationError('The settings cannot be used', [{ option, reason }])
  let bytes: Buffer
  try {
    bytes = await untilAborted(firstBytes(file), signal)
  } catch (error) {
    if (signal.aborted) throw error
    throw failed(`names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
  if (bytes.length > MOST_BYTES) throw failed(`names a file of more than ${MOST_BYTES} bytes`)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw failed('names a file that is not UTF-8')
  }
}

async function firstBytes(file: string): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of createReadStream(file, { end: MOST_BYTES })) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
