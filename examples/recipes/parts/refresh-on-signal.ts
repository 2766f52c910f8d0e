import type { TokenProvider } from 'merchant-auth'

/**
 * Replaces the token when the process gets SIGHUP: `kill -HUP PID`, `systemctl kill -s HUP`, `pm2 sendSignal SIGHUP`. logrotate
 * often sends it, too. NestJS shuts down at it, unless `enableShutdownHooks` gets the names of other signals.
 */
export function refreshOnSignal(tokens: TokenProvider): void {
  process.on('SIGHUP', async () => {
    try {
      const { expiresAt } = await tokens.getToken({ forceRefresh: true })
      console.log('token requested; the current one is valid until', new Date(expiresAt).toISOString())
    } catch (error) {
      console.error('token not replaced:', error instanceof Error ? error.message : error) // the old one stays in use
    }
  })
}
