// Tests which heads of replies dq reads itself. test/role/plain-replies.test.ts compares the others with
// undici's.
import { describe, expect, it } from 'vitest';
import { readUsualHead } from '../../src/notifier/plain-reply.ts';

const read = (text: string) => readUsualHead(Buffer.from(text, 'latin1'));
const head = (...lines: string[]) => [...lines, '', ''].join('\r\n');
const ok = 'HTTP/1.1 200 OK';
const length = 'content-length: 4';

describe('readUsualHead', () => {
  it('head: status, headers, length, and how long the connection is kept', () => {
    const text = head(ok, 'Date: x', 'Content-Length:4', 'X-A: 1', 'x-a: \t2', 'X-a: 3', 'x-b: \xfc', 'x-c:');
    expect(read(`${text}{}ab`)).toEqual({
      ...{ status: 200, length: 4, keptMs: null, bytes: text.length },
      headers: { date: 'x', 'content-length': '4', 'x-a': ['1', '2', '3'], 'x-b': '\xfc', 'x-c': '' },
    });
  });

  it('head: only blanks and tabs are dropped around a value', () => {
    expect(read(head(ok, length, 'x-a: \xa0a\xa0'))?.headers['x-a']).toBe('\xa0a\xa0');
  });

  it.each([
    ['keep-alive: timeout=5', 5_000],
    ['keep-alive: max=9, timeout=0', 0],
    ['keep-alive: x', null],
    ['connection: Keep-Alive', null],
    ['connection: close', 0],
  ])('head: %s', (line, keptMs) => {
    expect(read(head(ok, length, line))?.keptMs).toBe(keptMs);
  });

  it.each([
    [head('HTTP/1.1 204 No Content'), 0],
    [head('HTTP/1.1 204 No Content', 'content-length: 0'), 0],
    [head('HTTP/1.1 500 ', 'content-length: 0'), 0],
    [head(ok, 'content-length: 999999999'), 999_999_999],
  ])('head: %j has a length', (text, bytes) => {
    expect(read(text)?.length).toBe(bytes);
  });

  it.each([
    ['HTTP/1.0', head('HTTP/1.0 200 OK', length)],
    ['1xx', head('HTTP/1.1 100 Continue')],
    ['6xx', head('HTTP/1.1 600 X', length)],
    ['no reason', head('HTTP/1.1 200', length)],
    ['304', head('HTTP/1.1 304 X', 'content-length: 0')],
    ['204 with a body', head('HTTP/1.1 204 X', length)],
    ['no length', head(ok)],
    ['two lengths', head(ok, length, length)],
    ['an odd length', head(ok, 'content-length: 04')],
    ['a length after a no-break space', head(ok, 'content-length: \xa04')],
    ['a huge length', head(ok, 'content-length: 1000000000')],
    ['chunks', head(ok, 'transfer-encoding: chunked')],
    ['a length and chunks', head(ok, length, 'Transfer-Encoding: chunked')],
    ['an upgrade', head(ok, length, 'upgrade: h2c')],
    ['trailers', head(ok, length, 'trailer: x')],
    ['another connection header', head(ok, length, 'connection: x')],
    ['two connection headers', head(ok, length, 'connection: close', 'connection: keep-alive')],
    ['a folded line', head(ok, length, 'x: a', ' b')],
    ['a blank before the colon', head(ok, length, 'x : a')],
    ['a blank at the end', head(ok, length, 'x: a ')],
    ['a line without a colon', head(ok, length, 'x')],
    ['an inherited name', head(ok, length, 'constructor: x')],
    ['a NUL', head(ok, length, 'x: a\0')],
    ['a bare line feed', `${ok}\n${length}\n\n`],
    ['a part', head(ok, length).slice(0, -1)],
    ['8 KiB and more', head(ok, length, `x: ${'y'.repeat(8_192)}`)],
    ['bytes before it', `\r\n${head(ok, length)}`],
  ])('head: %s is left to undici', (_name, text) => {
    expect(read(text)).toBeNull();
  });
});
