import { floor } from './floor.mjs'

export default floor('store')
