// The name of a browser and its system in a list of sessions.
import { expect, it } from 'vitest';
import { browserOf } from '../../src/core/session.ts';

const webKit = 'AppleWebKit/537.36 (KHTML, like Gecko)';

it.each([
  ['Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0', 'Firefox, Linux'],
  [
    `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webKit} Chrome/126.0 Safari/537.36 Edg/126.0`,
    'Edge, Windows',
  ],
  [`Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${webKit} Version/17.5 Safari/605.1.15`, 'Safari, macOS'],
  [`Mozilla/5.0 (Linux; Android 10; K) ${webKit} Chrome/126.0.0.0 Mobile Safari/537.36`, 'Chrome, Android'],
  [`Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) ${webKit} FxiOS/127.0 Mobile`, 'Firefox, iOS'],
  ['curl/8.5.0', ''],
  ['<script>Linux</script>', 'Linux'],
])('%s: %s', (userAgent, name) => {
  expect(browserOf(userAgent)).toBe(name);
});
