/** The garbage collector, which Node.js exposes only with a flag. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

export const collectGarbage = runInNewContext('gc') as () => void
