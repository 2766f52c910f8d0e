/** Draws a chart as SVG, with Vega-Lite. */
import { parse, View } from 'vega'
import { compile, type TopLevelSpec } from 'vega-lite'
import type { Chart } from './part.ts'

type Layers = Extract<TopLevelSpec, { layer: unknown }>['layer']

const COLORS = {
  ours: '#0969da',
  before: '#54aeff',
  baseline: '#6e7781',
  handwritten: '#9a6700',
  peer: '#6e7781',
}

export async function draw(chart: Chart): Promise<string> {
  return `${await new View(parse(compile(specOf(chart)).spec), { renderer: 'none' }).toSVG()}\n`
}

/** The rows of each group below each other, all on the same scale. */
function specOf(chart: Chart): TopLevelSpec {
  const { title, rows } = chart
  return {
    title: { text: title, anchor: 'start', fontSize: 15 },
    background: 'white',
    padding: 16,
    config: { font: 'system-ui, sans-serif', axis: { labelFontSize: 12, titleFontSize: 12 } },
    vconcat: [...new Set(rows.map(({ group }) => group))].map((group) => ({
      data: { values: rows.filter((row) => row.group === group) },
      title: { text: group ?? '', anchor: 'start', frame: 'group', fontSize: 13 },
      width: 480,
      height: { step: 24 },
      layer: layersOf(chart),
    })),
    resolve: { scale: { x: 'shared' } },
  }
}

function layersOf({ kind, unit, rows }: Chart): Layers {
  const ours = rows.filter((row) => row.kind === 'ours').map(({ name }) => name)
  const isOurs = `indexof(${JSON.stringify(ours)}, datum.value) >= 0`
  const labelFontWeight = { condition: { test: isOurs, value: 'bold' }, value: 'normal' } as const
  const axis = { labelLimit: 300, labelFontWeight } as const
  const y = { field: 'name', type: 'nominal', sort: null, title: null, axis } as const
  const scale = { domain: Object.keys(COLORS), range: Object.values(COLORS) }
  const color = { field: 'kind', type: 'nominal', scale, legend: null } as const
  const text = { field: 'value', format: kind === 'bars' ? '.1f' : '.2f' } as const
  const x = { field: 'value', type: 'quantitative', title: unit } as const
  if (kind === 'bars') {
    const domainMax = 1.1 * Math.max(...rows.map(({ value }) => value)) // room for the text of the longest
    const length = { ...x, scale: { domainMax } } as const
    return [
      { mark: { type: 'bar', height: 14 }, encoding: { x: length, y, color } },
      { mark: { type: 'text', align: 'left', dx: 5 }, encoding: { x: length, y, text } },
    ]
  }
  const ratio = { ...x, scale: { type: 'log', nice: false, padding: 48 } } as const
  return [
    { mark: { type: 'rule', color: '#57606a' }, encoding: { x: { datum: 1 } } },
    { mark: 'rule', encoding: { x: { ...ratio, field: 'from' }, x2: { field: 'to' }, y, color } },
    { mark: { type: 'point', filled: true, size: 70, opacity: 1 }, encoding: { x: ratio, y, color } },
    { mark: { type: 'text', align: 'left', dx: 8 }, encoding: { x: { ...ratio, field: 'to' }, y, text } },
  ]
}
