/** The Express service of docs/production.md, between an orchestrator and the sandbox: start, health checks, SIGTERM. */
import { checkService } from './support/service-check.ts'

await checkService(new URL('parts/express-service.ts', import.meta.url))
