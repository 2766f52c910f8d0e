/** One token for processes that share a Redis. */
import { describeProviders } from '../store/providers.ts'
import { onEachRedis } from './rig.ts'

onEachRedis(describeProviders)
