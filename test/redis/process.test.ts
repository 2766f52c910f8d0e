/** A process survives its Redis, with or without a listener for the client's errors, and ends when it has closed what it has. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { PATIENCE_MS } from '../support/patience.ts'
import { eventually, onEachRedis } from './rig.ts'

const MEMBER = fileURLToPath(new URL('./member.ts', import.meta.url))
/** In which clients try to connect a few times. */
const A_WHILE_MS = 400

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
      /** Resolves when it finds in Redis what it has put there. */
      serves: () => eventually('Redis', async () => (await call()) === 'store'),
      end: async (how: 'quit' | 'close') => {
        child.stdin.end(`${how}\n`)
        const [code] = await exited
        return { code, errors }
      },
    }
  }

  it('lives while Redis dies and comes back, and ends by itself after close and quit', async () => {
    const member = startMember()
    await member.serves()
    await rig.every((server) => server.kill())
    expect(await member.call()).toBe('store-failed endpoint')
    await sleep(A_WHILE_MS)
    expect(await member.call()).toBe('store-failed endpoint')
    await rig.every((server) => server.restart())
    await rig.redis.whole()
    await member.serves()
    expect(await member.end('quit')).toEqual({ code: 0, errors: '' })
  })

  it('lives without a Redis from its start to its end', async () => {
    await rig.every((server) => server.kill())
    try {
      const member = startMember()
      expect(await member.call()).toBe('store-failed endpoint')
      await sleep(A_WHILE_MS)
      expect(await member.call()).toBe('store-failed endpoint')
      expect(await member.end('close')).toEqual({ code: 0, errors: '' })
    } finally {
      await rig.every((server) => server.restart())
      await rig.redis.whole()
    }
  })
})
