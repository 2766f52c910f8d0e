/** What one call costs over real sockets, to a server in another process on loopback. */
import { Agent } from 'node:http'
import { chartRows, costSection, type Group, measureGroups, summaryOf } from '../call-cost.ts'
import { runPart, type Section } from '../part.ts'
import { CLOSING_PATH, startService } from '../service.ts'

const ATTACH_AUTH = { attachAuth: 1.05 }
/** Two copies of one build, on a busy machine: 0.99 to 1.01; with undici, whose calls are short, up to 1.11. */
const tolerance = 1.03

/** Beside other packages, without limits: `price.ts` has them for connections that are kept, and measures them more precisely. */
const KEPT: readonly Group[] = [
  {
    title: 'axios, agent with keep-alive',
    clients: ['axios'],
    transport: () => ({ axios: { httpAgent: new Agent({ keepAlive: true }) } }),
    tolerance,
  },
  { title: 'fetch, connections kept', clients: ['fetch', 'other'], tolerance },
  { title: 'undici, connections kept', clients: ['undici'], tolerance: 1.15 },
]

const OTHERS: readonly Group[] = [
  {
    title: 'axios, no agent given',
    clients: ['axios'],
    only: ['attachAuth'], // the agent of Node.js keeps connections, too
    limits: ATTACH_AUTH,
    tolerance,
  },
  {
    title: 'axios, agent without keep-alive',
    clients: ['axios'],
    only: ['attachAuth'],
    transport: () => ({ axios: { httpAgent: new Agent({ keepAlive: false }) } }),
    limits: ATTACH_AUTH,
    tolerance,
  },
  {
    title: 'fetch, a connection for each call',
    clients: ['fetch'],
    only: ['createAuthFetch'],
    path: CLOSING_PATH,
    limits: { createAuthFetch: 1.04 },
    tolerance,
  },
]

async function sockets(): Promise<Section> {
  const { service, close } = await startService()
  const rounds = { rounds: 541, sliceMs: 15, warmUpMs: 500 }
  const results = await measureGroups([...KEPT, ...OTHERS], { service, rounds })
  await close()
  const kept = results.filter(({ group }) => KEPT.includes(group))
  const section = costSection(
    {
      title: 'Cost of a call over sockets',
      intro:
        'CPU time of the client process (`process.cpuUsage()`) for a call with a valid token to an HTTP server in another process ' +
        'on loopback, one call at a time. Without an agent axios uses that of Node.js, which keeps connections, too.',
    },
    results,
  )
  return {
    ...section,
    summary: summaryOf('A call over sockets that are kept open', kept),
    chart: {
      file: 'sockets.svg',
      title: 'CPU time of a call over sockets that are kept open',
      unit: 'times a constant header (logarithmic scale), and where it lies with a confidence of 95 %',
      kind: 'dots',
      rows: chartRows(kept),
    },
  }
}

await runPart(import.meta, sockets)
