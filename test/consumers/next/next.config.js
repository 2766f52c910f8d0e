/** Each build adds its own pages: those of `plain`, or those of `cached`, with `cacheComponents`. */
const { BUILD } = process.env

module.exports = {
  pageExtensions: ['ts', 'tsx', `${BUILD}.tsx`],
  cacheComponents: BUILD === 'cached',
  partialPrefetching: BUILD === 'cached',
  experimental: { turbopackFileSystemCacheForBuild: false }, // writing it costs more than it saves
  typescript: { ignoreBuildErrors: BUILD !== 'plain' }, // once is enough
}
