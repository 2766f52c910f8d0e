// How findings are written: what is waited for is said on a terminal only, and gone when there is something to say.
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { Hiding } from '../../src/cli/hiding.ts'
import { folded, jsonReport, textReport } from '../../src/cli/report.ts'

afterEach(() => vi.unstubAllEnvs())

describe('a report', () => {
  it('says on a terminal what is waited for, and clears it', () => {
    vi.stubEnv('FORCE_COLOR', undefined)
    vi.stubEnv('TERM', 'xterm')
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

  it.each([
    [1, /\nGood, with a warning\.\n$/],
    [2, /\nGood, with 2 warnings\.\n$/],
  ])('counts its warnings: %i', (warnings, verdict) => {
    const [lines, json] = [new PassThrough(), new PassThrough()]
    for (const report of [textReport(lines), jsonReport(json)]) {
      for (let times = 0; times < warnings; times += 1)
        report.add({ step: 'jwt', result: 'warning', text: 'one\ntwo', advice: 'Look.' })
      expect(report.end(0)).toBe(0)
    }
    expect(String(lines.read())).toMatch(verdict)
    expect(JSON.parse(String(json.read()))).toMatchObject({ ok: true, warnings, steps: { length: warnings } })
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

describe('foreign text', () => {
  it('shows no secret in whatever case, nothing that steers a terminal, and is not long', () => {
    const hiding = new Hiding()
    hiding.secrets.add('Swordfish')
    expect(hiding.shown('\u001b[2Jone\ntwo\u202e')).toBe(' [2Jone two ')
    expect(hiding.shown('iss http://swordfish/')).toBe('[hidden]')
    expect(hiding.shown('iss http://Swordfish/')).toBe('iss http://[hidden]/')
    expect(hiding.shown(`${'x'.repeat(295)}Swordfish`)).toBe(`${'x'.repeat(295)}[hidd…`)
  })
})
