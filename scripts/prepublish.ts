/**
 * What `npm publish` runs first: ends it while the owner's addresses are missing from package.json. npm publishes without
 * them, and publint does not ask for them.
 */
import packageJson from '../package.json' with { type: 'json' }

const missing = ['repository', 'homepage', 'bugs'].filter((field) => !Object.hasOwn(packageJson, field))
if (missing.length > 0) {
  console.error(
    `package.json has no ${missing.join(', ')}: fill in what is missing (CONTRIBUTING.md, Releases)`,
  )
  process.exitCode = 1
}
