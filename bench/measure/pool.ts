/** A few measurements at a time. */

/** Does something with each item, at most `width` at a time, and keeps the order. */
export async function eachOf<Item, Result>(
  items: readonly Item[],
  width: number,
  act: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = new Array(items.length)
  const queue = items.entries()
  const worker = async (): Promise<void> => {
    for (const [index, item] of queue) results[index] = await act(item)
  }
  await Promise.all(Array.from({ length: width }, worker))
  return results
}

/** Says on stderr what is being done. */
export function progress(line: string): void {
  process.stderr.write(`  ${line}\n`)
}
