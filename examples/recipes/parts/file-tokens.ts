/** A provider that shares its token through files. Shown in docs/sharing.md. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { createFileTokenStore } from 'merchant-auth/file'

const store = createFileTokenStore(join(homedir(), '.my-service', 'tokens'))
export const tokens = createTokenProvider({ ...optionsFromEnv(), store })
