import { layer } from './layer.mjs'

export default layer('attach')
