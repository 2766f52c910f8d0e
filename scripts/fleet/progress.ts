/** Shows what goes on: one line kept up to date on a terminal, otherwise a line each second. */

const { stdout } = process

export class Progress implements Disposable {
  readonly #line: () => string
  readonly #timer: NodeJS.Timeout
  #last = ''

  constructor(line: () => string) {
    this.#line = line
    this.#timer = setInterval(() => this.#show(), stdout.isTTY ? 100 : 1_000)
    this.#show()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    if (stdout.isTTY) stdout.write('\r\x1b[2K')
  }

  #show(): void {
    const line = `   ${this.#line()}`
    if (stdout.isTTY) stdout.write(`\r\x1b[2K${line.slice(0, stdout.columns - 1)}`)
    else if (line !== this.#last) stdout.write(`${line}\n`)
    this.#last = line
  }
}
