const { pluginClient } = require('@kubb/plugin-client')
const { pluginOas } = require('@kubb/plugin-oas')
const { pluginTs } = require('@kubb/plugin-ts')

module.exports = {
  input: { path: './openapi.json' },
  output: { path: './generated/kubb', extension: { '.ts': '.js' }, barrelType: false, format: false },
  plugins: [
    pluginOas({ generators: [] }),
    pluginTs({ output: { path: 'types.ts', barrelType: false } }),
    pluginClient({ output: { path: 'clients.ts', barrelType: false }, client: 'axios', bundle: true }),
  ],
}
