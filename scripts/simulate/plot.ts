/** The outcomes as a picture (SVG): token requests and waits, hour by hour. */
import type { Outcome } from './figures.ts'
import { type Scenario, type Span, VARIANTS } from './scenario.ts'

const WIDTH = 860
const HEIGHT = 656
const LEFT = 78
const RIGHT = 20
const HOUR_MS = 3_600_000
/** In the order of the variants. */
const LINES = ['none', 'unleased', 'leased']
/** The dashed line last: it hides no other. */
const DRAWN = [0, 2, 1]

interface Panel {
  readonly title: string
  readonly top: number
  readonly bottom: number
  /** The end of the axis, as a power of ten. */
  readonly to: number
  label(power: number): string
}

/** What is below 1, so that a line at 1 is no axis. */
const ROOM = -0.35

const REQUESTS: Omit<Panel, 'to'> = {
  title: 'Token requests in each hour',
  top: 122,
  bottom: 366,
  label: (power) => (10 ** power).toLocaleString('en').replaceAll(',', ' '),
}
const WAITS: Omit<Panel, 'to'> = {
  title: 'Longest wait of a call for a token, in each hour',
  top: 440,
  bottom: 600,
  label: (power) => (power < 3 ? `${10 ** power} ms` : `${10 ** (power - 3)} s`),
}

const STYLE = `
.paper { fill: #ffffff }
text { font: 13px system-ui, sans-serif; fill: #24292f }
.name { font-weight: 600; font-size: 14px }
.sub { font-size: 12px; fill: #57606a }
.grid { stroke: #d8dee4 } .axis { stroke: #8c959f }
.deploy { fill: #8c959f; fill-opacity: 0.22 } .outage { fill: #cf222e; fill-opacity: 0.16 }
.line { fill: none; stroke-width: 2.2 }
.none { stroke: #cf222e } .unleased { stroke: #9a6700; stroke-dasharray: 6 4 } .leased { stroke: #0969da }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 }
text { fill: #e6edf3 } .sub { fill: #9da7b3 }
.grid { stroke: #262c36 } .axis { stroke: #6e7681 }
.deploy { fill: #9da7b3; fill-opacity: 0.24 } .outage { fill: #ff7b72; fill-opacity: 0.24 }
.none { stroke: #ff7b72 } .unleased { stroke: #d29922 } .leased { stroke: #58a6ff }
}`

/** `outcomes` in the order of the variants. */
export function plot(scenario: Scenario, outcomes: readonly Outcome[]): string {
  const hours = scenario.durationMs / HOUR_MS
  const x = (ms: number): number => LEFT + (ms / scenario.durationMs) * (WIDTH - LEFT - RIGHT)
  const outage = outcomes.at(-1)?.outage
  const requests = outcomes.map((outcome) => byHour(outcome.requestsPerMinute, sum))
  const waits = outcomes.map((outcome) => byHour(outcome.longestWaitPerMinute, greatest))
  const about =
    `${scenario.providers.toLocaleString('en').replaceAll(',', ' ')} simulated processes ` +
    `over ${hours} hours, tokens of ${scenario.lifetimeMs / 60_000} minutes`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-labelledby="t d">`,
    `<title id="t">Token requests of a fleet: ${about}</title>`,
    `<desc id="d">${described(requests)}</desc>`,
    `<style>${STYLE}\n</style>`,
    `<rect class="paper" width="${WIDTH}" height="${HEIGHT}" rx="8"/>`,
    text(LEFT, 30, about, { kind: 'name' }),
    ...legend(52),
    ...scenario.deploys.map((span) => mark(span, x, 'deploy')),
    ...(outage === undefined ? [] : [mark(outage, x, 'Redis down')]),
    ...[
      { panel: upTo(REQUESTS, requests), values: requests },
      { panel: upTo(WAITS, waits), values: waits },
    ].flatMap(({ panel, values }) => [
      ...scenario.deploys.map((span) => band(panel, span, { x, kind: 'deploy' })),
      ...(outage === undefined ? [] : [band(panel, outage, { x, kind: 'outage' })]),
      ...axes(panel, hours, x),
      ...DRAWN.map((nth) => steps(panel, values[nth] ?? [], { x, line: LINES[nth] ?? '' })),
    ]),
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, 'hours since the start of the fleet', { anchor: 'middle' }),
    '</svg>\n',
  ].join('\n')
}

function described(requests: readonly (readonly number[])[]): string {
  const totals = requests.map((hours, nth) => `${VARIANTS[nth]}: ${hours.reduce(sum, 0)} token requests`)
  return `Over the whole time, ${totals.join('; ')}.`
}

function legend(y: number): string[] {
  return VARIANTS.flatMap((variant, nth) => {
    const x = LEFT + nth * 190
    return [
      `<path class="line ${LINES[nth]}" d="M${x} ${y}h34"/>`,
      text(x + 42, y + 4, variant, { anchor: 'start' }),
    ]
  })
}

/** With an axis up to the next power of ten. */
function upTo(panel: Omit<Panel, 'to'>, values: readonly (readonly number[])[]): Panel {
  return { ...panel, to: Math.max(1, Math.ceil(Math.log10(Math.max(...values.flat())))) }
}

function band(
  { top, bottom }: Panel,
  { from, until }: Span,
  { x, kind }: { x: (ms: number) => number; kind: string },
): string {
  return `<rect class="${kind}" x="${shown(x(from))}" y="${top}" width="${shown(x(until) - x(from))}" height="${bottom - top}"/>`
}

function mark({ from, until }: Span, x: (ms: number) => number, label: string): string {
  return text((x(from) + x(until)) / 2, REQUESTS.top - 6, label, { kind: 'sub', anchor: 'middle' })
}

function axes(panel: Panel, hours: number, x: (ms: number) => number): string[] {
  const { title, top, bottom, to, label } = panel
  const powers = Array.from({ length: to + 1 }, (_, nth) => nth)
  const times = Array.from({ length: Math.floor(hours / 3) + 1 }, (_, nth) => 3 * nth)
  return [
    text(LEFT, top - (top === REQUESTS.top ? 26 : 14), title, { kind: 'name' }),
    ...powers.map((power) => {
      const y = shown(heightOf(panel, 10 ** power))
      return `<path class="grid" d="M${LEFT} ${y}H${WIDTH - RIGHT}"/>${text(LEFT - 8, y + 4, label(power), { kind: 'sub', anchor: 'end' })}`
    }),
    ...times.map((hour) => {
      const at = shown(x(hour * HOUR_MS))
      return `<path class="axis" d="M${at} ${bottom}v5"/>${text(at, bottom + 19, String(hour), { kind: 'sub', anchor: 'middle' })}`
    }),
    `<path class="axis" d="M${LEFT} ${bottom}H${WIDTH - RIGHT}"/>`,
  ]
}

/** One level for each hour, and none where there was nothing. */
function steps(
  panel: Panel,
  series: readonly number[],
  { x, line }: { x: (ms: number) => number; line: string },
): string {
  let path = ''
  let drawing = false
  for (const [hour, value] of series.entries()) {
    if (value > 0) {
      const y = shown(heightOf(panel, value))
      path += drawing ? `V${y}` : `M${shown(x(hour * HOUR_MS))} ${y}`
      path += `H${shown(x((hour + 1) * HOUR_MS))}`
    }
    drawing = value > 0
  }
  return `<path class="line ${line}" d="${path}"/>`
}

function heightOf({ top, bottom, to }: Panel, value: number): number {
  const power = Math.max(ROOM, Math.log10(value))
  return bottom - ((power - ROOM) / (to - ROOM)) * (bottom - top)
}

function byHour(minutes: readonly number[], join: (one: number, other: number) => number): number[] {
  const hours: number[] = []
  for (const [minute, value] of minutes.entries()) {
    const hour = Math.floor(minute / 60)
    hours[hour] = join(hours[hour] ?? 0, value)
  }
  return hours
}

function sum(one: number, other: number): number {
  return one + other
}

function greatest(one: number, other: number): number {
  return Math.max(one, other)
}

function text(
  x: number,
  y: number,
  content: string,
  { kind, anchor = 'start' }: { kind?: string; anchor?: 'start' | 'middle' | 'end' },
): string {
  const shape = kind === undefined ? '' : ` class="${kind}"`
  return `<text${shape} x="${shown(x)}" y="${shown(y)}" text-anchor="${anchor}">${content}</text>`
}

function shown(length: number): number {
  return Math.round(length * 10) / 10
}
