/** What the flags of `merchant-auth sandbox` say. */
import type { SandboxSettings } from '../testing/index.ts'
import { readArguments, UsageError, wholeNumber } from './arguments.ts'
import { type FaultOrder, readFaults } from './sandbox-faults.ts'
import { HEADER_FLAGS, readHeader } from './settings.ts'

const FLAGS = {
  environment: { type: 'string' },
  port: { type: 'string' },
  'production-port': { type: 'string' },
  json: { type: 'boolean' },
  'lifetime-seconds': { type: 'string' },
  'token-latency-ms': { type: 'string' },
  'api-latency-ms': { type: 'string' },
  'reject-all-tokens': { type: 'string' },
  fault: { type: 'string', multiple: true },
  ...HEADER_FLAGS,
} as const

/** How the sandbox is to be started and shown. */
export interface SandboxPlan {
  /** Whose variables are printed. */
  readonly environment: 'production' | 'test'
  readonly ports: { readonly test: number; readonly production: number }
  readonly settings: SandboxSettings
  readonly faults: readonly FaultOrder[]
  readonly isJson: boolean
}

type NumberFlag = 'port' | 'production-port' | 'lifetime-seconds' | 'token-latency-ms' | 'api-latency-ms'

const APIS = ['merchant', 'in-store'] as const
const MOST = 2 ** 31 - 1

/** @throws UsageError */
export function readPlan(args: readonly string[]): SandboxPlan {
  const values = readArguments(withRejectedApis(args), FLAGS)
  const number = (flag: NumberFlag, fallback: number, range: readonly [number, number]): number => {
    const text = values[flag]
    return text === undefined ? fallback : wholeNumber(flag, text, range)
  }
  const { environment = 'test', json = false, fault = [] } = values
  if (environment !== 'test' && environment !== 'production') {
    throw new UsageError('--environment must be test or production.')
  }
  return {
    environment,
    ports: {
      test: number('port', 0, [0, 65_535]),
      production: number('production-port', 0, [0, 65_535]),
    },
    settings: {
      lifetimeSeconds: number('lifetime-seconds', 3600, [1, MOST]),
      tokenLatencyMs: number('token-latency-ms', 0, [0, MOST]),
      apiLatencyMs: number('api-latency-ms', 0, [0, MOST]),
      rejectAllTokens: rejectingApis(values['reject-all-tokens']),
      ...readHeader(values),
    },
    faults: readFaults(fault),
    isJson: json,
  }
}

/** `node:util` knows no flag whose value may be left out: what that means is said in its place. */
function withRejectedApis(args: readonly string[]): string[] {
  return args.map((arg, index) => {
    if (arg !== '--reject-all-tokens') return arg
    if (APIS.some((api) => api === args[index + 1])) {
      throw new UsageError(
        'The value of --reject-all-tokens stands behind =, as in --reject-all-tokens=merchant.',
      )
    }
    return `${arg}=${APIS.join(',')}`
  })
}

function rejectingApis(text: string | undefined): (typeof APIS)[number][] {
  if (text === undefined) return []
  const named = text.split(',')
  const apis = APIS.filter((api) => named.includes(api))
  if (apis.length === named.length) return apis
  throw new UsageError('--reject-all-tokens takes no value, or =merchant or =in-store.')
}
