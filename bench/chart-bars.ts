/** Horizontal bars, one below the other; on a logarithmic scale, where a length means nothing, points. */
import {
  colourOf,
  frame,
  inMarks,
  inNumbers,
  MARGIN,
  round,
  type Scale,
  scaleOf,
  text,
  WIDTH,
} from './chart-frame.ts'
import type { Chart } from './section.ts'

const ROW = 26
const LEFT = 262
const RIGHT = WIDTH - 90
const TOP = 66

interface Row {
  readonly label: string
  readonly kind: Chart['series'][number]['kind']
  readonly value: number
}

interface Group {
  readonly title?: string
  readonly rows: readonly Row[]
}

export function bars(chart: Chart): string {
  const groups = groupsOf(chart)
  const scale = scaleOf(
    groups.flatMap(({ rows }) => rows.map(({ value }) => value)),
    chart.scale,
  )
  const body: string[] = []
  let y = TOP
  for (const { title, rows } of groups) {
    if (title !== undefined) {
      y += ROW
      body.push(text({ x: MARGIN, y: y - 8, content: title, className: 'strong' }))
    }
    for (const row of rows) {
      body.push(...rowOf(row, { y, scale, isLog: chart.scale === 'log' }))
      y += ROW
    }
  }
  return frame(chart, { height: y + 34, body: [...gridOf(scale, y), ...body] })
}

/** If no place on the x axis comes twice, each is a row; else the rows of a place stay together. */
function groupsOf({ series }: Chart): Group[] {
  const places = [...new Set(series.flatMap(({ values }) => values.map(({ x }) => x)))]
  const count = series.reduce((sum, { values }) => sum + values.length, 0)
  if (places.length === count) {
    const rows = series.flatMap(({ kind, values }) =>
      values.map(({ x, y }) => ({ label: String(x), kind, value: y })),
    )
    return [{ rows }]
  }
  return places.map((place) => ({
    title: String(place),
    rows: series.flatMap(({ name, kind, values }) =>
      values.filter(({ x }) => x === place).map(({ y }) => ({ label: name, kind, value: y })),
    ),
  }))
}

function rowOf(
  { label, kind, value }: Row,
  { y, scale, isLog }: { y: number; scale: Scale; isLog: boolean },
): string[] {
  const colour = colourOf(kind)
  const end = round(LEFT + scale.place(value) * (RIGHT - LEFT))
  const middle = y + ROW / 2
  const shape = isLog
    ? `<path class="stem s${colour}" d="M${LEFT} ${middle}H${end}"/><circle class="c${colour}" cx="${end}" cy="${middle}" r="6"/>`
    : `<rect class="c${colour}" x="${LEFT}" y="${y + 4}" width="${round(Math.max(1, end - LEFT))}" height="${ROW - 8}" rx="2"/>`
  const className = kind === 'ours' ? 'strong' : ''
  return [
    text({ x: LEFT - 10, y: middle + 4, content: label, className, anchor: 'end' }),
    shape,
    text({ x: end + (isLog ? 12 : 8), y: middle + 4, content: inNumbers(value), className }),
  ]
}

function gridOf(scale: Scale, bottom: number): string[] {
  return scale.marks.flatMap((mark) => {
    const x = round(LEFT + scale.place(mark) * (RIGHT - LEFT))
    return [
      `<path class="grid" d="M${x} ${TOP}V${bottom}"/>`,
      text({ x, y: bottom + 18, content: inMarks(mark), className: 'sub', anchor: 'middle' }),
    ]
  })
}
