/** Shows that it runs: one line kept up to date on a terminal, otherwise a line now and then. */

const { stdout } = process

export class Progress {
  readonly #durationMs: number
  readonly #figures: () => string
  readonly #startedAt = performance.now()
  readonly #timer: NodeJS.Timeout

  constructor(durationMs: number, figures: () => string) {
    this.#durationMs = durationMs
    this.#figures = figures
    const everyMs = stdout.isTTY ? 250 : durationMs > 60_000 ? 10_000 : 5_000
    this.#timer = setInterval(() => this.#show(), everyMs)
  }

  end(): void {
    clearInterval(this.#timer)
    if (stdout.isTTY) stdout.write('\r\x1b[2K')
    else this.#show()
  }

  #show(): void {
    const seconds = (ms: number): string => (ms / 1000).toFixed(0)
    const elapsed = seconds(performance.now() - this.#startedAt)
    const line = `${elapsed} of ${seconds(this.#durationMs)} s: ${this.#figures()}`
    if (stdout.isTTY) stdout.write(`\r\x1b[2K${line.slice(0, stdout.columns - 1)}`)
    else stdout.write(`${line}\n`)
  }
}
