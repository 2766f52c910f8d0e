/** Shows that a program runs: one line kept up to date on a terminal, otherwise a line now and then. */
const { stdout } = process

export class Progress implements Disposable {
  readonly #line: () => string
  readonly #timer: NodeJS.Timeout
  #last = ''

  /** @param everyMs how often a line is written where there is no terminal */
  constructor(line: () => string, everyMs: number) {
    this.#line = line
    this.#timer = setInterval(() => this.#show(), stdout.isTTY ? 250 : everyMs)
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    if (stdout.isTTY) stdout.write('\r\x1b[2K')
  }

  #show(): void {
    const line = this.#line()
    if (stdout.isTTY) stdout.write(`\r\x1b[2K${line.slice(0, stdout.columns - 1)}`)
    else if (line !== this.#last) stdout.write(`${line}\n`)
    this.#last = line
  }
}
