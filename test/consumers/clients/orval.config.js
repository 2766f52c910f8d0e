module.exports = {
  axios: {
    input: './openapi.json',
    output: {
      target: './generated/orval-axios.ts',
      client: 'axios',
      override: { mutator: { path: './orval-axios.ts', name: 'callApi' } },
    },
  },
  fetch: {
    input: './openapi.json',
    output: {
      target: './generated/orval-fetch.ts',
      client: 'fetch',
      override: { mutator: { path: './orval-fetch.ts', name: 'callApi' } },
    },
  },
}
