// What of a text the sandbox hides, and how long that takes.
import { describe, expect, it } from 'vitest'
import { hide } from '../../src/testing/hidden.ts'
import { growth } from '../support/growth.ts'

const TOKEN = 'eyJh.eyJi.sig-1'
const known = {
  secrets: new Set(['swordfish of the sandbox']),
  jtiOf: (token: string) => (token === TOKEN ? 'one' : undefined),
}

describe('hide', () => {
  it.each([
    [`Bearer ${TOKEN}`, 'Bearer [token one]'],
    [`/a?t=${TOKEN}&u=${TOKEN}`, '/a?t=[token one]&u=[token one]'],
    [`x-${TOKEN}`, 'x-[token one]'],
    [`x.${TOKEN}.y`, 'x.[token one].y'],
    ['eyJx.y.z', '[hidden]'],
    ['eyJx.y.', '[hidden]'],
    ['eyJa.eyJx.y.z.w', '[hidden].z.w'],
    ['eyJx..z', 'eyJx..z'],
    ['eyJx.y', 'eyJx.y'],
    ['theyJx.y.z', 'theyJx.y.z'],
    ['1.2.3', '1.2.3'],
    ['swordfish of the sandbox', '[hidden]'],
  ])('shows %s as %s', (text, shown) => {
    expect(hide(text, known)).toBe(shown)
  })

  it.each(['eyJ-', 'eyJ.', 'eyJ.a'])('takes a time that grows with the length of %s', (piece) => {
    const textOf = (length: number) => piece.repeat(length / 4)
    expect(growth((text) => hide(text, known), textOf, 40_000)).toBeLessThan(24)
  })
})
