/** Draws a chart as SVG. */
import { bars } from './chart-bars.ts'
import { lines } from './chart-lines.ts'
import type { Chart } from './section.ts'

export function draw(chart: Chart): string {
  return chart.kind === 'bars' ? bars(chart) : lines(chart)
}
