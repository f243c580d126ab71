// The text and the headers of a reply, as a retry rule reads them.
import { describe, expect, it } from 'vitest';
import { evaluateRule, parseRule } from '../../src/core/rule/reply-rule.ts';
import { viewOf } from '../../src/core/verdict.ts';
import { Reply } from '../../src/notifier/call-back.ts';
import { readUsualHead } from '../../src/notifier/plain-reply.ts';

const textOf = (bytes: Buffer, type?: string) =>
  new Reply(200, type === undefined ? {} : { 'content-type': type }, [bytes], false).text;
const gbk = Buffer.from([0xd6, 0xd8, 0xca, 0xd4]); // 重试

describe('reply text', () => {
  it.each([
    ['text/html; charset=gbk', gbk],
    ['application/json;charset="GB2312"', gbk],
    ['text/plain; a=b; Charset=gb18030', gbk],
    ['text/plain; charset=big5', Buffer.from([0xad, 0xab, 0xb8, 0xd5])],
    ['text/plain; charset=utf-8', Buffer.from('重试')],
    ['text/plain', Buffer.from('重试')],
    [undefined, Buffer.from('重试')],
    ['text/plain; charset=nonsense', Buffer.from('重试')],
    ['text/plain; charset=iso-8859-1', Buffer.from('重试')],
  ])('of %s is decoded', (type, bytes) => {
    expect(['重试', '重試']).toContain(textOf(bytes, type));
  });

  it('of shift_jis is decoded, also in pieces', () => {
    const bytes = Buffer.from([0x8d, 0xc4, 0x8e, 0x8e]); // 再試
    const pieces = [...bytes].map((byte) => Buffer.from([byte]));
    const reply = new Reply(200, { 'content-type': 'text/plain; charset=Shift_JIS' }, pieces, false);
    expect(reply.text).toBe('再試');
  });
});

describe('reply headers', () => {
  const headerOf = (bytes: Buffer) => {
    const start = Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx-msg: ');
    const head = readUsualHead(Buffer.concat([start, bytes, Buffer.from('\r\n\r\n')]));
    return new Reply(200, head?.headers ?? {}, [], false);
  };

  it('of valid UTF-8 are read as UTF-8, as `dq rule test` reads them', () => {
    const reply = headerOf(Buffer.from('重试'));
    expect(reply.header('x-msg')).toBe('重试');
    const parsed = parseRule("{header.x-msg}=='重试'");
    expect(parsed.ok && evaluateRule(parsed.rule, viewOf(reply, 1))).toBe(true);
  });

  it('of other bytes are read as Latin 1', () => {
    expect(headerOf(Buffer.from([0x54, 0xfc, 0x72])).header('x-msg')).toBe('Tür');
  });
});
