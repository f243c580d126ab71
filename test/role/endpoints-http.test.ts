// Receivers that answer in every way of HTTP, valid or not: the verdict (manual: receiving), and one
// request each.
import { expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { startRawServer } from '../support/raw-server.ts';
import { check, type Rows } from './attempt-table.ts';
import { answering, closing, flooding, ok, replying, saying } from './receivers.ts';

/** A 200 with these lines. */
const headed = (body: string, ...lines: readonly string[]) =>
  replying(['HTTP/1.1 200 OK', ...lines, '', body].join('\r\n'));

const rule = { retryIf: '{res.code}!=200' };

it('redirects: one request, never a second one', async () => {
  const target = await startRawServer((socket) => void socket.write(ok));
  const rows: Rows = [301, 302, 303, 307, 308].flatMap((status) =>
    [target.url, 'http://169.254.169.254/latest/meta-data/', '/', '//127.0.0.1/'].map(
      (location) =>
        [
          `${status} to ${location}`,
          `retry: status ${status}`,
          answering(status, `location: ${location}`),
        ] as const,
    ),
  );
  await check([
    ...rows,
    ['300', 'retry: status 300', answering(300)],
    [
      '304 with okStatus',
      'retry: status 304',
      replying('HTTP/1.1 304 X\r\ncontent-length: 20\r\n\r\n'),
      { okStatus: ['2xx', '3xx'] },
    ],
    ['201 with a Location', 'ack: 201', answering(201, `location: ${target.url}`)],
  ]);
  expect(target.connections()).toBe(0);
});

it('statuses, bodies and rules', async () => {
  const deep = `${'['.repeat(10_000)}${']'.repeat(10_000)}`;
  const rows: Rows = [
    ...[400, 401, 404, 409, 422, 500, 502, 503, 504, 599].map(
      (status) => [`${status}`, `retry: status ${status}`, answering(status)] as const,
    ),
    ['410', 'bury gone: status 410', answering(410)],
    ['410 with okStatus', 'ack: 410', answering(410), { okStatus: ['410'] }],
    ['dq-no-retry on 500', 'bury no_retry: status 500', answering(500, 'DQ-No-Retry:  TRUE ')],
    ['dq-no-retry on 200', 'ack: 200', answering(200, 'dq-no-retry: true')],
    ['dq-no-retry: false', 'retry: status 500', answering(500, 'dq-no-retry: false')],
    ['dq-no-retry with a rule', 'bury no_retry: rule 200', saying('{}', 'dq-no-retry: true'), rule],
    ['200 without a body', 'retry: empty_reply 200', saying('')],
    ['200 of no chunks', 'retry: empty_reply 200', headed('0\r\n\r\n', 'transfer-encoding: chunked')],
    ['200 that closes', 'retry: empty_reply 200', closing('HTTP/1.1 200 OK\r\n\r\n')],
    ['200 without a body, accepted', 'ack: 200', saying(''), { emptyReply: 'accept' }],
    ['204 that claims a length', 'ack: 204', replying('HTTP/1.1 204 X\r\ncontent-length: 5\r\n\r\n')],
    ['204', 'ack: 204', replying('HTTP/1.1 204 No Content\r\n\r\n')],
    ['202 without a body', 'retry: empty_reply 202', replying('HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n')],
    ['205 without a body', 'retry: empty_reply 205', replying('HTTP/1.1 205 X\r\ncontent-length: 0\r\n\r\n')],
    ['no JSON', 'ack: 200', saying('done')],
    ['no JSON, with a rule', 'retry: rule 200', saying('done'), rule],
    ['null', 'retry: rule 200', saying('null'), rule],
    ['a list', 'retry: rule 200', saying('[]'), rule],
    ['a text', 'retry: rule 200', saying('"x"'), rule],
    ['what the rule wants', 'ack: 200', saying('{"code":200}'), rule],
    ['the same in Latin-1', 'ack: 200', saying(Buffer.from('{"msg":"\xe9","code":200}', 'latin1')), rule],
    ['a deep list', 'retry: rule 200', saying(deep), rule],
    ['a polluted prototype', 'retry: rule 200', saying('{"__proto__":{"code":200}}'), rule],
  ];
  await check(rows);
});

it('Retry-After', async () => {
  const long = new Date(Date.now() - 86_400_000).toUTCString();
  const later = new Date(Date.parse(long) + 90_000).toUTCString();
  const rows: [string, number, number, ...string[]][] = [
    ['429 in seconds', 5_000, 429, 'retry-after: 5'],
    ['503 in seconds', 120_000, 503, 'Retry-After: 120'],
    ['500 is not asked', 1_000, 500, 'retry-after: 120'],
    ['shorter than the wait', 1_000, 429, 'retry-after: 0'],
    ['ten years', limits.retryAfterMsMax, 429, 'retry-after: 315360000'],
    ['empty', 1_000, 503, 'retry-after:'],
    ['twice', 1_000, 503, 'retry-after: 60', 'retry-after: 90'],
    ['a date, counted from the Date of the reply', 90_000, 429, `date: ${long}`, `retry-after: ${later}`],
  ];
  await check(
    rows.map(([name, delayMs, status, ...headers]) => {
      const backoff = { type: 'ladder', stepsMs: [1_000] } as const;
      return [name, `retry after ${delayMs}: status ${status}`, answering(status, ...headers), { backoff }];
    }),
  );
});

it('unusual HTTP, and invalid HTTP', async () => {
  const long = (bytes: number) =>
    `HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(bytes)}\r\ncontent-length: 2\r\n\r\n{}`;
  const rows: Rows = [
    ['HTTP/1.0', 'ack: 200', closing('HTTP/1.0 200 OK\r\n\r\n{}')],
    ['HTTP/1.0 with a length', 'ack: 200', replying(ok.replace('1.1', '1.0'))],
    // IIS sends it for each POST.
    ['100 first', 'ack: 200', replying('HTTP/1.1 100 Continue\r\n\r\n', ok)],
    [
      '100 in pieces, twice',
      'ack: 200',
      replying('HTTP/1.1 10', `0 Continue\r\n\r\nHTTP/1.1 100 X\r\nx: y\r\n\r\n${ok}`),
    ],
    ['100 and nothing more', 'retry: timeout', replying('HTTP/1.1 100 Continue\r\n\r\n')],
    ['100 and the end', 'retry: reset', closing('HTTP/1.1 100 Continue\r\n\r\n')],
    [
      'folded header lines',
      'bury no_retry: status 500',
      replying('HTTP/1.1 500 X\r\ndq-no-retry:\r\n true\r\ncontent-length: 2\r\n\r\n{}'),
    ],
    [
      '102 and 103 first',
      'ack: 200',
      replying('HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nlink: <x>\r\n\r\n', ok),
    ],
    ['103 and nothing more', 'retry: timeout', replying('HTTP/1.1 103 Early Hints\r\n\r\n')],
    ['103 and the end', 'retry: reset', closing('HTTP/1.1 103 Early Hints\r\n\r\n')],
    ['headers in capitals', 'ack: 200', headed('{}', 'CONTENT-LENGTH: 2')],
    ['no reason phrase', 'ack: 200', replying('HTTP/1.1 200\r\ncontent-length: 2\r\n\r\n{}')],
    ['headers that repeat', 'ack: 200', saying('{}', 'x-a: 1', 'x-a: 2', 'set-cookie: a', 'set-cookie: b')],
    ['trailers', 'ack: 200', headed('2\r\n{}\r\n0\r\nx-t: 1\r\n\r\n', 'transfer-encoding: chunked')],
    ['a chunk extension', 'ack: 200', headed('2;a=b\r\n{}\r\n0\r\n\r\n', 'transfer-encoding: chunked')],
    ['a header of 10 KB', 'ack: 200', replying(long(10_000))],
    ['a header of 60 KB', 'ack: 200', replying(long(60_000))],
    ['a header of 70 KB', 'retry: protocol', replying(long(70_000))],
    [
      '40 KB of headers',
      'ack: 200',
      replying(long(1).replace('x-long', `${'x-header: value\r\n'.repeat(2_500)}x-long`)),
    ],
    ['the same length twice', 'retry: protocol', headed('{}', 'content-length: 2', 'content-length: 2')],
    ['two lengths', 'retry: protocol', headed('{}', 'content-length: 2', 'content-length: 3')],
    [
      'a length and chunks',
      'retry: protocol',
      headed('0\r\n\r\n', 'content-length: 2', 'transfer-encoding: chunked'),
    ],
    ['a negative length', 'retry: protocol', headed('{}', 'content-length: -2')],
    ['a length beyond numbers', 'retry: protocol', headed('{}', 'content-length: 99999999999999999999')],
    [
      'a chunk beyond numbers',
      'retry: protocol',
      headed('fffffffffffffffff\r\n{}', 'transfer-encoding: chunked'),
    ],
    ['an invalid chunk', 'retry: protocol', headed('xyz\r\n{}\r\n', 'transfer-encoding: chunked')],
    ['a bad header', 'retry: protocol', headed('', 'x y: z')],
    ['NUL in a header', 'retry: protocol', headed('', 'x: \0')],
    ['a bad status', 'retry: protocol', replying('HTTP/1.1 abc OK\r\n\r\n')],
    ['status 99', 'retry: protocol', replying('HTTP/1.1 99 X\r\ncontent-length: 0\r\n\r\n')],
    ['status 0', 'retry: protocol', replying('HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n')],
    ['status 1000', 'retry: protocol', replying('HTTP/1.1 1000 X\r\ncontent-length: 0\r\n\r\n')],
    ['status 600', 'retry: status 600', answering(600)],
    ['status 999', 'retry: status 999', answering(999)],
    ['HTTP/9.9', 'retry: protocol', replying('HTTP/9.9 200 OK\r\ncontent-length: 2\r\n\r\n{}')],
    ['HTTP/0.9', 'retry: protocol', closing('{"code":200}')],
    ['HTTP/2', 'retry: protocol', replying('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
    ['a request', 'retry: protocol', replying('GET / HTTP/1.1\r\nhost: x\r\n\r\n')],
    ['SMTP', 'retry: protocol', replying('220 mail.test ESMTP\r\n')],
    ['SSH', 'retry: protocol', replying('SSH-2.0-OpenSSH_9.2\r\n')],
    ['zeros', 'retry: protocol', replying(Buffer.alloc(100))],
    [
      '101',
      'retry: protocol',
      replying('HTTP/1.1 101 S\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
    ],
    ['endless headers', 'retry: protocol', flooding('HTTP/1.1 200 OK\r\n', 50_000_000)],
    // Only the time bounds it; dq keeps none of it.
    ['an endless status line', 'retry: timeout', flooding('HTTP/1.1 200 ', 50_000_000)],
  ];
  await check(rows);
});
