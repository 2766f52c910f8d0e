/** The version of this package, for telemetry. package.json has it, too, but is not in a bundle of the caller. */
export const VERSION = '0.1.0'
