/** What goes wrong in the telemetry stays there. */
import { diag } from '@opentelemetry/api'

/** Does something of the SDK's: the result; undefined where there is none because the SDK threw. */
export type Quietly = <T>(act: () => T) => T | undefined

/** One for each listener: the first fault is told to OpenTelemetry's own log, the others would say the same. */
export function createQuietly(): Quietly {
  let told = false
  return (act) => {
    try {
      return act()
    } catch (error) {
      if (!told) warn(error)
      told = true
      return undefined
    }
  }
}

function warn(error: unknown): void {
  try {
    diag.warn('merchant-auth: the OpenTelemetry SDK threw', error)
  } catch {
    // The log is the application's, and so are its faults.
  }
}
