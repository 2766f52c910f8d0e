/** What all charts share: colours for light and dark, scales with their marks, numbers and text. */
import type { Chart } from './section.ts'

export const WIDTH = 860
export const MARGIN = 24

type Kind = Chart['series'][number]['kind']

const STYLE = `
.paper { fill: #ffffff }
text { font: 13px system-ui, sans-serif; fill: #24292f }
.name { font-weight: 600; font-size: 14px } .strong { font-weight: 600 }
.sub { font-size: 12px; fill: #57606a }
.grid { stroke: #d8dee4 } .axis { stroke: #8c959f } .stem { stroke-width: 2 }
.line { fill: none; stroke-width: 2 } .line.ours { stroke-width: 3 }`

/** For light and for dark. */
const COLOURS = [
  ['#0969da', '#58a6ff'],
  ['#6e7781', '#9da7b3'],
  ['#9a6700', '#d29922'],
  ['#8250df', '#bc8cff'],
  ['#1a7f37', '#3fb950'],
  ['#cf222e', '#ff7b72'],
  ['#bf3989', '#f778ba'],
] as const

function colours(of: 0 | 1): string {
  return COLOURS.map((pair, nth) => `.c${nth} { fill: ${pair[of]} } .s${nth} { stroke: ${pair[of]} }`).join(
    '\n',
  )
}

/** Ours, the floor and what is handwritten have a colour each; among peers it tells lines apart. */
export function colourOf(kind: Kind, nthPeer = 0): number {
  if (kind === 'ours') return 0
  if (kind === 'floor') return 1
  if (kind === 'naive') return 2
  return 3 + (nthPeer % (COLOURS.length - 3))
}

export function frame(chart: Chart, { height, body }: { height: number; body: readonly string[] }): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="t d">
<title id="t">${escaped(chart.title)}</title>
<desc id="d">${escaped(described(chart))}</desc>
<style>${STYLE}
${colours(0)}
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 }
text { fill: #e6edf3 } .sub { fill: #9da7b3 }
.grid { stroke: #262c36 } .axis { stroke: #6e7681 }
${colours(1)}
}
</style>
<rect class="paper" width="${WIDTH}" height="${height}" rx="8"/>
${text({ x: MARGIN, y: 30, content: chart.title, className: 'name' })}
${text({ x: MARGIN, y: 50, content: chart.unit + (chart.scale === 'log' ? ', logarithmic scale' : ''), className: 'sub' })}
${body.join('\n')}
</svg>
`
}

function described(chart: Chart): string {
  const parts = chart.series.map(({ name, values }) => {
    const all = values.map(({ x, y }) => (x === name ? inNumbers(y) : `${x}: ${inNumbers(y)}`))
    return `${name} ${all.join(', ')}`
  })
  return `${chart.unit}: ${parts.join('; ')}.`
}

export interface Label {
  readonly x: number
  readonly y: number
  readonly content: string
  readonly className?: string
  readonly anchor?: 'start' | 'middle' | 'end'
}

export function text({ x, y, content, className, anchor = 'start' }: Label): string {
  const classes = className ? ` class="${className}"` : ''
  return `<text${classes} x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escaped(content)}</text>`
}

export function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

export function round(value: number): number {
  return Math.round(value * 10) / 10
}

/** Three digits that count, and thin spaces between thousands. */
export function inNumbers(value: number): string {
  if (value === 0) return '0'
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))
  const [whole = '', fraction] = value.toFixed(digits).split('.')
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, '\u202f')
  return fraction ? `${grouped}.${fraction}` : grouped
}

/** The same for the marks of an axis, which are round. */
export function inMarks(value: number): string {
  return inNumbers(value).replace(/\.?0+$/, (zeros) => (inNumbers(value).includes('.') ? '' : zeros))
}

export interface Scale {
  readonly marks: readonly number[]
  /** From 0 to 1. */
  place(value: number): number
}

export function scaleOf(values: readonly number[], kind: Chart['scale']): Scale {
  const [lowest, highest] = [Math.min(...values), Math.max(...values)]
  return kind === 'log' && lowest > 0 ? logScale(lowest, highest) : linearScale(Math.max(highest, 0))
}

function linearScale(highest: number): Scale {
  const power = 10 ** Math.floor(Math.log10(highest || 1))
  const step = [0.2, 0.5, 1, 2].map((factor) => factor * power).find((one) => highest / one <= 6) ?? 2 * power
  const end = Math.ceil((highest || 1) / step) * step
  const marks = Array.from({ length: Math.round(end / step) + 1 }, (_, nth) => nth * step)
  return { marks, place: (value) => value / end }
}

function logScale(lowest: number, highest: number): Scale {
  const from = Math.log10(lowest / 1.4)
  const to = Math.log10(highest * 1.1)
  const marks: number[] = []
  for (let power = Math.floor(from); power <= to; power += 1) {
    for (const factor of to - from > 3 ? [1] : [1, 2, 5]) marks.push(factor * 10 ** power)
  }
  const place = (value: number) => (Math.log10(value) - from) / (to - from)
  return { marks: marks.filter((mark) => place(mark) >= 0 && place(mark) <= 1), place }
}
