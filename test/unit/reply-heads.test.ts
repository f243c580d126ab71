import { describe, expect, it } from 'vitest';
import { ReplyHeads } from '../../src/notifier/callback-client.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';

/** What undici gets of these chunks. */
function passed(chunks: readonly string[]): string {
  const heads = new ReplyHeads();
  heads.expect();
  return chunks.map((chunk) => heads.pass(Buffer.from(chunk, 'latin1')).toString('latin1')).join('');
}

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';
const early = 'HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n';
const go = 'HTTP/1.1 100 Continue\r\nx-a: b\r\n\r\n';
const folds = 'HTTP/1.1 200 OK\r\nx-a: 1\r\n  2\r\n\t3\r\ncontent-length:\r\n 2\r\n\r\n{}\r\n x';
const unfolds = 'HTTP/1.1 200 OK\r\nx-a: 1 2 3\r\ncontent-length: 2\r\n\r\n{}\r\n x';

describe.each<[string, string, string]>([
  ['a reply', ok, ok],
  ['100 Continue', go + ok, ok],
  ['100 without a phrase', `HTTP/1.1 100\r\n\r\n${ok}`, ok],
  ['100 of HTTP/1.0, twice', `HTTP/1.0 100 X\r\n\r\n${go}${ok}`, ok],
  ['100 between 103', early + go + early + ok, early + early + ok],
  ['folded lines', folds, unfolds],
  ['a body that looks like a head', `${ok}\r\n\r\n${go}`, `${ok}\r\n\r\n${go}`],
  ['a blank after the status line', 'HTTP/1.1 200 OK\r\n x\r\n\r\n', 'HTTP/1.1 200 OK\r\n x\r\n\r\n'],
  ['status 1000', 'HTTP/1.1 1000 X\r\n\r\n', 'HTTP/1.1 1000 X\r\n\r\n'],
  ['lines that end with LF', 'HTTP/1.1 200 OK\nx-a: 1\n 2\n\n{}', 'HTTP/1.1 200 OK\nx-a: 1\n 2\n\n{}'],
  ['another protocol', '220 mail.test ESMTP\r\n', '220 mail.test ESMTP\r\n'],
])('reply heads: %s', (_name, given, expected) => {
  it('in one piece, byte by byte, and in two pieces', () => {
    expect(passed([given])).toBe(expected);
    expect(passed([...given])).toBe(expected);
    for (let n = 1; n < given.length; n += 1)
      expect(passed([given.slice(0, n), given.slice(n)]), String(n)).toBe(expected);
  });
});

it('reply heads: passes a head that is too long on', () => {
  const head = `HTTP/1.1 200 OK\r\n${'x-a: 1\r\n'.repeat(notifierLimits.replyHeadBytesMax / 8)}`;
  expect(passed([head.slice(0, 1_000), head.slice(1_000)])).toBe(head);
});

it('reply heads: changes nothing between two replies', () => {
  const heads = new ReplyHeads();
  expect(heads.pass(Buffer.from(go)).toString()).toBe(go);
  heads.expect();
  expect(heads.hasBegun).toBe(false);
  heads.pass(Buffer.from(ok));
  expect(heads.hasBegun).toBe(true);
  expect(heads.pass(Buffer.from(go)).toString()).toBe(go);
});
