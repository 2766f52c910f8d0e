// Whose the terminal is, told by process groups.
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { groupsByProc, groupsByPs, maySet } from '../../src/cli/sandbox-foreground.ts'

const SOURCE = new URL('../../src/cli/sandbox-foreground.ts', import.meta.url).href

describe('a process', () => {
  it.each([
    ['in the foreground', { own: 7, foreground: 7 }, true],
    ['in the background', { own: 7, foreground: 5 }, false],
    ['without a terminal', { own: 7, foreground: -1 }, true],
    ['without a terminal on macOS', { own: 7, foreground: 0 }, true],
  ])('%s', (_where, groups, may) => {
    expect(maySet(groups)).toBe(may)
  })

  it.runIf(process.platform !== 'win32')(
    'of a session of its own, which has no terminal, may set one',
    async () => {
      const program = `console.log((await import(${JSON.stringify(SOURCE)})).isInForeground())`
      const args = ['--no-warnings', '--input-type=module', '--eval', program]
      const child = spawn(process.execPath, args, { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
      expect(await text(child.stdout)).toBe('true\n')
    },
  )
})

describe('the groups', () => {
  it('are read behind the name of the program, whatever that is', () => {
    expect(groupsByProc('12 (a) R 1 2 (b) S 1 34 30 34816 56 4194304 0')).toEqual({ own: 34, foreground: 56 })
    expect(groupsByProc('12 (node) S 1 34 30 0 -1 4194304 0')).toEqual({ own: 34, foreground: -1 })
  })

  it('are refused where they are not there', () => {
    expect(() => groupsByProc('12 (node) S')).toThrow('The process groups are unknown')
  })

  it.runIf(process.platform === 'linux')('are the same in /proc and for ps', () => {
    expect(groupsByPs()).toEqual(groupsByProc())
  })
})
