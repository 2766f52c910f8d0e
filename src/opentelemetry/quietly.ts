/** What goes wrong in the telemetry stays there. */

/** The result; undefined where there is none because the SDK threw. */
export function quietly<T>(act: () => T): T | undefined {
  try {
    return act()
  } catch {
    return undefined
  }
}
