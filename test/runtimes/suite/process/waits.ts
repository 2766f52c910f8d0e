/** Waits for a token, whose request fails first and then pauses. Nothing but the package keeps the process alive. */
import { createTokenProvider } from 'merchant-auth'

const tokens = createTokenProvider(JSON.parse(process.argv[2] ?? ''))
tokens.getToken().then(({ tokenType }) => console.log(tokenType))
