/** The scenarios of all clients with the dispatchers of two major versions of undici. */
import assert from 'node:assert/strict'
import { type Undici, undiciDriver } from '../../clients/drivers.ts'
import { BODIES } from '../../clients/scenarios/bodies.ts'
import { FAULTS } from '../../clients/scenarios/faults.ts'
import { REDIRECTS } from '../../clients/scenarios/redirects.ts'
import { RENEWAL } from '../../clients/scenarios/renewal.ts'
import { concerns } from '../../clients/scenarios/scenario.ts'
import { SIGNALS } from '../../clients/scenarios/signals.ts'
import { inWorld } from '../../clients/world.ts'
import { check, group, isBun, lacks } from './harness.ts'

// Not a literal, so that the compiler does not resolve it. undici is loaded only after the checks of fetch.
const ENTRY: string = 'merchant-auth/undici'

for (const name of ['undici-7', 'undici']) {
  group(`401: one renewal, and the call once more: undici ${name === 'undici' ? 8 : 7}`)
  for (const scenario of [...RENEWAL, ...BODIES, ...SIGNALS, ...FAULTS, ...REDIRECTS]) {
    if (scenario.nodeOnly || !concerns(scenario, { name: 'undici' })) continue
    check(`${scenario.group}: ${scenario.name}`, async () => {
      if (await isMissing(name)) return
      const { createAuthDispatch } = (await import(ENTRY)) as { createAuthDispatch: never }
      const driver = undiciDriver('undici', (await import(name)) as Undici, createAuthDispatch)
      await inWorld((world) => scenario.run(world, driver))
    })
  }
}

async function isMissing(name: string): Promise<boolean> {
  if (name !== 'undici') return false
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (
    lacks(!isBun && major === 22 && minor < 19, 'undici 8 needs Node.js 22.19 or newer; undici 7 does not.')
  ) {
    await assert.rejects(import(name))
    return true
  }
  const standIn = lacks(
    isBun,
    'Bun puts a package of its own in the place of `undici`, which has no `compose`. Undici itself runs there under another name: `npm install undici-7@npm:undici@7`.',
  )
  if (standIn) {
    const undici = (await import(name)) as Undici
    assert.equal(new undici.Agent().compose, undefined)
  }
  return standIn
}
