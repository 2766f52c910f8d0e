/** Lines, each with its name at its end. */
import { colourOf, frame, inMarks, round, type Scale, scaleOf, text, WIDTH } from './chart-frame.ts'
import type { Chart } from './section.ts'

const LEFT = 76
const RIGHT = WIDTH - 226
const TOP = 72
const BOTTOM = 380
const LINE_HEIGHT = 17
const DASHES = ['', '7 4', '2 4', '10 4 2 4']

type Place = (x: string | number) => number

export function lines(chart: Chart): string {
  const scale = scaleOf(
    chart.series.flatMap(({ values }) => values.map(({ y }) => y)),
    chart.scale,
  )
  const yOf = (value: number) => round(BOTTOM - scale.place(value) * (BOTTOM - TOP))
  const { marks, place } = placesOf(chart)
  const peers = chart.series.filter(({ kind }) => kind === 'peer')
  const drawn = chart.series.map((series) => {
    const nthPeer = Math.max(0, peers.indexOf(series))
    const points = series.values.map(({ x, y }) => [round(place(x)), yOf(y)] as const)
    const dash = series.kind === 'peer' ? DASHES[Math.floor(nthPeer / 4 + 1) % DASHES.length] : ''
    return { series, points, colour: colourOf(series.kind, nthPeer), dash }
  })
  const body = drawn.map(({ series, points, colour, dash }) => {
    const path = points.map(([x, y], nth) => `${nth === 0 ? 'M' : 'L'}${x} ${y}`).join('')
    const dots =
      points.length > 40
        ? []
        : points.map(([x, y]) => `<circle class="c${colour}" cx="${x}" cy="${y}" r="3.5"/>`)
    return `<path class="line ${series.kind} s${colour}"${dash ? ` stroke-dasharray="${dash}"` : ''} d="${path}"/>${dots.join('')}`
  })
  const ends = drawn.map(({ series, points, colour }) => ({
    name: series.name,
    isOurs: series.kind === 'ours',
    colour,
    y: points.at(-1)?.[1] ?? BOTTOM,
  }))
  const labels = spread(ends).map(({ name, isOurs, colour, y }) =>
    text({ x: RIGHT + 12, y: y + 4, content: name, className: `c${colour}${isOurs ? ' strong' : ''}` }),
  )
  const x = marks.map((mark) =>
    text({ x: place(mark), y: BOTTOM + 22, content: String(mark), className: 'sub', anchor: 'middle' }),
  )
  return frame(chart, { height: BOTTOM + 44, body: [...gridOf(scale, yOf), ...x, ...body, ...labels] })
}

/** Numbers stand where they belong (logarithmically if they span much), names side by side. */
function placesOf({ series }: Chart): { marks: readonly (string | number)[]; place: Place } {
  const all = [...new Set(series.flatMap(({ values }) => values.map(({ x }) => x)))]
  const numbers = all.filter((x) => typeof x === 'number').sort((a, b) => a - b)
  const across = (share: number) => LEFT + 14 + share * (RIGHT - LEFT - 28)
  const [first = 0, last = 0] = [numbers[0], numbers.at(-1)]
  if (numbers.length < all.length || first === last) {
    return { marks: all, place: (x) => across(all.indexOf(x) / Math.max(1, all.length - 1)) }
  }
  const isWide = first > 0 && last / first >= 100
  const share = (x: number) =>
    isWide ? Math.log(x / first) / Math.log(last / first) : (x - first) / (last - first)
  const every = Math.ceil(numbers.length / 10)
  return { marks: numbers.filter((_, nth) => nth % every === 0), place: (x) => across(share(Number(x))) }
}

function gridOf(scale: Scale, yOf: (value: number) => number): string[] {
  return scale.marks.flatMap((mark) => [
    `<path class="grid" d="M${LEFT} ${yOf(mark)}H${RIGHT}"/>`,
    text({ x: LEFT - 8, y: yOf(mark) + 4, content: inMarks(mark), className: 'sub', anchor: 'end' }),
  ])
}

/** Moves names apart that would lie on each other: in turn down from the top, then up from the bottom. */
function spread<T extends { readonly y: number }>(labels: readonly T[]): T[] {
  const sorted = [...labels].sort((a, b) => a.y - b.y)
  let free = TOP
  const down = sorted.map((label) => {
    const y = Math.max(label.y, free)
    free = y + LINE_HEIGHT
    return { ...label, y }
  })
  let ceiling = BOTTOM + LINE_HEIGHT
  return down.reverse().map((label) => {
    const y = Math.min(label.y, ceiling)
    ceiling = y - LINE_HEIGHT
    return { ...label, y }
  })
}
