/** A process survives an outage of Redis, with or without an error listener on the client, and exits after closing it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { PATIENCE_MS } from '../support/patience.ts'
import { eventually, onEachRedis } from './rig.ts'

const MEMBER = fileURLToPath(new URL('./member.ts', import.meta.url))
/** Long enough for a client to try to connect a few times. */
const RECONNECTS_MS = 400

onEachRedis((rig) => {
  const startMember = () => {
    const args = [MEMBER, rig.client, rig.layout, ...rig.redis.ports.map(String)]
    const child = spawn(process.execPath, args, { timeout: PATIENCE_MS })
    const answers = createInterface(child.stdout)[Symbol.asyncIterator]()
    let errors = ''
    child.stderr.on('data', (data) => {
      errors += data
    })
    const exited = once(child, 'exit')
    const call = async (): Promise<string> => {
      child.stdin.write('call\n')
      return String((await answers.next()).value ?? errors)
    }
    return {
      call,
      /** Resolves when the process acquires its token from Redis. */
      serves: () => eventually('Redis', async () => (await call()) === 'store'),
      end: async (how: 'quit' | 'close') => {
        child.stdin.end(`${how}\n`)
        const [code] = await exited
        return { code, errors }
      },
    }
  }

  it('a process keeps running while Redis is killed and restarted, and exits by itself after quit', async () => {
    const member = startMember()
    await member.serves()
    await rig.every((server) => server.kill())
    expect(await member.call()).toBe('store-failed endpoint')
    await sleep(RECONNECTS_MS)
    expect(await member.call()).toBe('store-failed endpoint')
    await rig.every((server) => server.restart())
    await rig.redis.whole()
    await member.serves()
    expect(await member.end('quit')).toEqual({ code: 0, errors: '' })
  })

  it('a process runs without Redis from its start, and exits by itself after close', async () => {
    await rig.every((server) => server.kill())
    try {
      const member = startMember()
      expect(await member.call()).toBe('store-failed endpoint')
      await sleep(RECONNECTS_MS)
      expect(await member.call()).toBe('store-failed endpoint')
      expect(await member.end('close')).toEqual({ code: 0, errors: '' })
    } finally {
      await rig.every((server) => server.restart())
      await rig.redis.whole()
    }
  })
})
