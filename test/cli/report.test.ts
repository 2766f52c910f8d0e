// How findings are written: what is waited for is said on a terminal only, and gone when there is something to say.
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { folded, jsonReport, textReport } from '../../src/cli/report.ts'

afterEach(() => vi.unstubAllEnvs())

describe('a report', () => {
  it('says on a terminal what is waited for, and clears it', () => {
    vi.stubEnv('FORCE_COLOR', undefined)
    const terminal = Object.assign(new PassThrough(), { isTTY: true, getColorDepth: () => 1 })
    const report = textReport(terminal)
    report.pending('asking for a token')
    report.pending('asking once more')
    report.add({ step: 'name', result: 'ok', text: 'auth.example' })
    report.pending('calling')
    report.stop()
    report.stop()
    const clear = '\r\u001b[2K'
    expect(String(terminal.read())).toBe(
      `… asking for a token${clear}… asking once more${clear}✓ Name        auth.example\n… calling${clear}`,
    )
  })

  it('says elsewhere only what was found', () => {
    const file = new PassThrough()
    const report = textReport(file)
    report.pending('asking for a token')
    report.add({ step: 'options', result: 'failed', text: 'one\ntwo', advice: 'Do this.' })
    expect(report.end(3)).toBe(3)
    expect(String(file.read())).toBe(
      '✗ Options     one\n              two\n              → Do this.\n\nNot good (exit code 3).\n',
    )
  })

  it('shows no secret, nothing that steers a terminal, and warnings in its verdict', () => {
    for (const make of [textReport, jsonReport]) {
      const file = new PassThrough()
      const report = make(file)
      report.hide('Swordfish')
      report.add({
        step: 'jwt',
        result: 'warning',
        text: 'iss http://swordfish/\u001b[2J\u202e',
        advice: 'Ask Swordfish\nnow.',
        data: { list: ['Swordfish'], count: 1 },
      })
      report.end(0)
      const said = String(file.read())
      expect(said).not.toMatch(/swordfish/i)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is looked for
      expect(said).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/)
      expect(said).toMatch(make === textReport ? /\nGood, with a warning\.\n$/ : /"warnings": 1/)
    }
  })

  it('keeps to the width of a narrow terminal', () => {
    const narrow = Object.assign(new PassThrough(), { columns: 60 })
    textReport(narrow).add({ step: 'name', result: 'failed', text: 'no', advice: 'word '.repeat(40) })
    for (const line of String(narrow.read()).split('\n')) expect(line.length).toBeLessThanOrEqual(60)
  })

  it('folds long advice below its first word, and breaks no word', () => {
    const text = folded(`→ ${'word '.repeat(30)}${'x'.repeat(120)}`, { indent: 4, width: 100 })
    const lines = text.split('\n')
    expect(lines.length).toBeGreaterThan(2)
    for (const line of lines.slice(0, -1)) expect(line.length).toBeLessThanOrEqual(100)
    for (const line of lines.slice(1)) expect(line).toMatch(/^ {6}\S/)
    expect(text).toContain('x'.repeat(120))
  })
})
