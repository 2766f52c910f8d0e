/** Waits for a token whose first request fails and is retried after a pause. Only the package keeps the process alive. */
import { createTokenProvider } from 'merchant-auth'

const tokens = createTokenProvider(JSON.parse(process.argv[2] ?? ''))
tokens.getToken().then(({ tokenType }) => console.log(tokenType))
