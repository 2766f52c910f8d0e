/** How consecutive pauses grow. */

/** What follows `last`: twice as much, up to a limit. */
export function doubled(
  last: number,
  { first, most }: { readonly first: number; readonly most: number },
): number {
  return last === 0 ? first : Math.min(last * 2, most)
}
