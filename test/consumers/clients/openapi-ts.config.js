/** What hey-api generates in CI: a client on fetch, and one on axios. */
const plugins = ['@hey-api/typescript', '@hey-api/sdk']

module.exports = ['fetch', 'axios'].map((name) => ({
  input: `${__dirname}/openapi.json`,
  output: `${__dirname}/generated/hey-api-${name}`,
  plugins: [...plugins, `@hey-api/client-${name}`],
}))
