/** How large the package may be. Raise a limit only for something that users benefit from. */

/** What a program loads at first: these entries with all dependencies but the peers, minified and gzipped. */
export interface FirstLoad {
  readonly entries: readonly string[]
  /** Whether they come from the CommonJS build, of which a bundle has everything at first, jose included. */
  readonly required?: true
  readonly limitBytes: number
}

export const FIRST_LOADS: readonly FirstLoad[] = [
  { entries: ['.'], limitBytes: 31_000 },
  { entries: ['./axios'], limitBytes: 32_300 },
  { entries: ['./undici'], limitBytes: 14_500 },
  { entries: ['./redis'], limitBytes: 10_000 },
  { entries: ['./opentelemetry'], limitBytes: 4_000 },
  { entries: ['./testing'], limitBytes: 27_000 },
  { entries: ['.', './axios'], limitBytes: 35_700 },
  { entries: ['.', './axios'], required: true, limitBytes: 54_100 },
  { entries: ['./testing'], required: true, limitBytes: 43_000 },
]

export const TARBALL_PACKED_BYTES = 645_000
export const TARBALL_UNPACKED_BYTES = 2_350_000

/** This package and its dependencies, without optional peers. */
export const INSTALLED_PACKAGES = 2
