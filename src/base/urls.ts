/** URLs of callers, operators and servers, which may be invalid. */

/**
 * Parses a URL; undefined if it is invalid. `URL.canParse` of Node.js 22 turns false for hosts with a letter of Latin-1 once V8 has
 * optimized it (https://github.com/AikidoSec/firewall-node/pull/1086), and older copies of jsdom have neither that nor `URL.parse`.
 */
export function parseUrl(text: string, base?: string): URL | undefined {
  try {
    return new URL(text, base)
  } catch {
    return undefined
  }
}
