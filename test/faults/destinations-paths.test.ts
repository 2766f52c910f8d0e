// Paths in every spelling, judged as they are sent (contract 5.1): dots, slashes, control characters, boundaries.
import { DEST, judge, OWN, type Row, TOKEN, type Verdict } from './verdicts.ts'

const M = (paths: readonly string[], verdict: Verdict): Row[] =>
  paths.map((path) => [`https://api.example.com${path}`, verdict])

judge('backslashes', [
  ['https:\\\\api.example.com\\merchant\\x', TOKEN],
  ['https:/\\api.example.com/merchant', TOKEN],
  ...M(['\\merchant\\x', '/merchant\\x', '\\..\\merchant', '/merchant\\..\\merchant\\x'], TOKEN),
  ...M(['/merchants\\..\\merchant\\x', '/merchant?x=\\..\\..', '/merchant#\\..\\'], TOKEN),
  ...M(['/merchant\\..\\admin', '/merchant/..\\admin', '/merchant\\..', '\\merchants\\x'], DEST),
  ...M(['/merchant/a%5cb', '/merchant/..%5Cadmin', '/merchant%5Cx', '/merchant\\%2e%2e\\admin'], DEST),
  ...M(['\\@evil.example/merchant'], DEST),
  ['https://evil.example\\@api.example.com/merchant', DEST],
  ['https://evil.example\\.api.example.com/merchant', DEST],
  ['\\\\api.example.com\\merchant', DEST],
])

judge('dot segments, plain and percent-encoded', [
  ...M(['/merchant/./x', '/merchant/a/../b', '/x/../merchant/y', '/../merchant', '/merchant/...'], TOKEN),
  ...M(['/merchant/%2e/x', '/merchant/a/%2e%2E/b', '/x/%2e%2e/merchant/y', '/merchant/%2e%2e%2e/x'], TOKEN),
  ...M(['/merchant/..', '/merchant/../x', '/merchant/a/../../x', '/merchant/../merchants'], DEST),
  ...M(['/merchant/%2e%2e/admin', '/merchant/%2E%2E', '/merchant/%2e./admin', '/merchant/.%2E/admin'], DEST),
  ...M(['/merchant/%2E./', '/merchant/%2e%2e?x', '/merchant/%2e%2e#x', '/merchant/a/%2e%2e/%2e%2e/b'], DEST),
  ...M(['/merchant/%2e%2e%2fadmin', '/merchant/..%2Fadmin'], DEST),
])

// These are no dot segments to the URL parser, and leave as they are: what a server makes of them is the server's.
judge('what only looks like a dot segment', [
  ...M(['/merchant/%252e%252e/admin', '/merchant/%252e%252e%252fadmin', '/merchant/..%252fadmin'], TOKEN),
  ...M(['/merchant/%c0%ae%c0%ae/admin', '/merchant/．．/admin', '/merchant/..;/admin'], TOKEN),
  ...M(['/merchant/%2e%2e;/admin', '/merchant/..%00/admin', '/merchant/..\u0000/admin'], TOKEN),
  ...M(['/merchant/.. /admin', '/merchant/.%20./admin'], TOKEN),
  ...M(['/merchants/..;/merchant', '/merchant%2e%2e/x', '/merchant../x', '/..;/merchant'], DEST),
])

judge('tabs, newlines and other control characters', [
  ['ht\ttps://api.example.com/merchant/x', TOKEN],
  ['https:/\n/api.example.com/merchant', TOKEN],
  ['https://api.exa\tmple.com/merchant/x', TOKEN],
  ['https://api.example.com:4\r\n43/merchant', TOKEN],
  ['  https://api.example.com/merchant/x', TOKEN],
  ['\t\n\u0000https://api.example.com/merchant/x', TOKEN],
  ...M(['/mer\nchant/x', '/merchant/x  ', '/merchant/x\u0000', '/merchant/a\tb', '/merchant\t'], TOKEN),
  ...M(['/merchant/.\t./admin', '/merchant/%2\te%2e/admin', '/merchant/.\r\n./admin'], DEST),
  ...M(['/merchant/..\u0000', '/merchant/.. ', '/merchant/..\n', '/merchant/a%\t2fb', '/merchant x'], DEST),
  ...M([' /merchant', '\t.evil.example/merchant', '\n@evil.example/merchant', '/mer\u000bchant'], DEST),
  ['https://api.exam\u0000ple.com/merchant', DEST],
  ['https://evil.example/\nhttps://api.example.com/merchant', DEST],
  ['\u00a0https://api.example.com/merchant', DEST],
  ['\ufeffhttps://api.example.com/merchant', DEST],
  ['https://u\t@api.example.com/merchant', OWN],
  ['https:\n//u:p@api.example.com/merchant/x', OWN],
])

judge('path boundaries', [
  ...M(['/merchant', '/merchant/', '/merchant/orders/7', '/merchant//x', '/merchant/;x'], TOKEN),
  ...M(
    ['/merchant?x', '/merchant#x', '/merchant/?next=https://evil.example/', '/merchant/@evil.example'],
    TOKEN,
  ),
  ...M(['/merchant/x?y=%2f%5c/../..', '/merchant/x#a%2fb/../..', '/merchant/https://evil.example'], TOKEN),
  ...M(['/in-store/v1', '/in-store/v1/', '/in-store/v1/sales'], TOKEN),
  ...M(['', '/', '?/merchant', '#/merchant', '//merchant/x', '/x/merchant/y'], DEST),
  ...M(
    ['/merchants', '/merchant2/x', '/merchant.json', '/merchant-old/x', '/merchant;x', '/merchant;v=1/x'],
    DEST,
  ),
  ...M(
    ['/merchant%2forders', '/merchant/a%2fb', '/merchant/a%2Fb?x', '/merchant%20/x', '/%6derchant/x'],
    DEST,
  ),
  ...M(['/merchant@evil.example/x', '/merchant:x', '/merchant&x', '/merchant%3Fx', '/merchant%23x'], DEST),
  ...M(['/in-store', '/in-store/v10', '/in-store/v1beta/x', '/in-store/v2', '/in-store/x/v1'], DEST),
  ['https://evil.example/?u=https://api.example.com/merchant', DEST],
  ['https://evil.example/https://api.example.com/merchant', DEST],
  ['https://shop.example.com:8443/a', DEST],
  ['https://shop.example.com:8443/a/bc', DEST],
])
