import type { ServerResponse } from 'node:http'
import type { INestApplication } from '@nestjs/common'

/** The response to each request from SIGTERM on ends its connection. */
export function endConnections(app: INestApplication): void {
  let isEnding = false
  process.once('SIGTERM', () => {
    isEnding = true
  })
  app.use((_request: unknown, response: ServerResponse, next: () => void) => {
    if (isEnding) response.setHeader('Connection', 'close')
    next()
  })
}
