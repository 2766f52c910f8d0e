/** How the time that something takes grows with the length of a text: 8 is linear, 64 is quadratic. */
export function growth(
  run: (text: string) => void,
  textOf: (length: number) => string,
  length: number,
): number {
  const [short, long] = [textOf(length), textOf(8 * length)]
  run(short) // compiled by now
  return fastest(() => run(long)) / fastest(() => run(short))
}

/** The best of several times: a busy machine makes them longer, and never shorter. */
function fastest(run: () => void): number {
  const times = Array.from({ length: 5 }, () => {
    const from = performance.now()
    run()
    return performance.now() - from
  })
  return Math.min(...times)
}
