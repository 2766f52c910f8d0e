/** How large the package may be. Raise a limit only for something that users benefit from. */

/** What a program loads at first: these entries with all dependencies but the peers, minified and gzipped. */
export interface FirstLoad {
  readonly entries: readonly string[]
  /** Whether they come from the CommonJS build, of which a bundle has everything at first, jose included. */
  readonly required?: true
  readonly limitBytes: number
}

export const FIRST_LOADS: readonly FirstLoad[] = [
  { entries: ['.'], limitBytes: 29_250 },
  { entries: ['./axios'], limitBytes: 30_800 },
  { entries: ['./undici'], limitBytes: 13_750 },
  { entries: ['./redis'], limitBytes: 10_000 },
  { entries: ['./opentelemetry'], limitBytes: 3_800 },
  { entries: ['./testing'], limitBytes: 26_500 },
  { entries: ['.', './axios'], limitBytes: 33_800 },
  { entries: ['.', './axios'], required: true, limitBytes: 52_000 },
  { entries: ['./testing'], required: true, limitBytes: 41_250 },
]

export const TARBALL_PACKED_BYTES = 600_000
export const TARBALL_UNPACKED_BYTES = 2_200_000

/** This package and its dependencies, without optional peers. */
export const INSTALLED_PACKAGES = 2
