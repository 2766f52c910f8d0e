/** Each build adds its own pages: those of `plain`, of `cached` with `cacheComponents`, or of `client`, which must fail. */
const { BUILD } = process.env

module.exports = {
  pageExtensions: BUILD === 'client' ? ['client.tsx'] : ['ts', 'tsx', `${BUILD}.tsx`],
  cacheComponents: BUILD === 'cached',
  partialPrefetching: BUILD === 'cached',
  experimental: { turbopackFileSystemCacheForBuild: false }, // writing it costs more than it saves
  typescript: { ignoreBuildErrors: BUILD !== 'plain' }, // once is enough
}
