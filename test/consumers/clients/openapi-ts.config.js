/** hey-api generates a fetch client and an axios client. */
const plugins = ['@hey-api/typescript', '@hey-api/sdk']

module.exports = ['fetch', 'axios'].map((name) => ({
  input: `${__dirname}/openapi.json`,
  output: `${__dirname}/generated/hey-api-${name}`,
  plugins: [...plugins, `@hey-api/client-${name}`],
}))
