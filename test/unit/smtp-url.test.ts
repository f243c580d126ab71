import { describe, expect, it } from 'vitest';
import { isMailAddress } from '../../src/core/alert-receiver.ts';
import { parseSmtpUrl } from '../../src/core/url/server-url.ts';
import { words } from '../support/words.ts';

const read = (text: string) => {
  const parsed = parseSmtpUrl(text);
  return parsed.ok ? parsed.value : parsed.message;
};

describe('smtp.url', () => {
  it('smtp.url: default port of the scheme, STARTTLS where offered', () => {
    expect(read('smtp://mail.example.org')).toEqual({
      ...{ host: 'mail.example.org', port: 25, secure: false, requireTls: false, ignoreTls: false },
      ...{ verifyTls: true, login: null },
    });
    expect(read('smtps://mail.example.org')).toMatchObject({ port: 465, secure: true });
    expect(read('smtp://[::1]:2525')).toMatchObject({ host: '::1', port: 2525 });
  });

  it('smtp.url: no password in the clear unless configured', () => {
    expect(read('smtp://us%40er:p%3Ass@h:587')).toMatchObject({
      requireTls: true,
      login: { user: 'us@er', password: 'p:ss' },
    });
    expect(read('smtps://u:p@h')).toMatchObject({ secure: true, requireTls: false });
    expect(read('smtp://u:p@h?ignoreTLS=true')).toMatchObject({ requireTls: false, ignoreTls: true });
    expect(read('smtp://u:p@h?requireTLS=false')).toMatchObject({ requireTls: false });
  });

  it.each([
    ...words`mail.example.org http://h smtp:// smtp://h/path smtp://h#x smtp://h:0 smtp://h:99999`,
    'smtp://a b',
    'smtp://h\r\n',
    ...words`
      smtp://user@h smtp://user:s3cret@h?pool=true smtp://user:s3cret@h?requireTLS=1
      smtp://user:s3cret@h?requireTLS=true&requireTLS=true
      smtp://user:s3cret@h?requireTLS=true&ignoreTLS=true smtp://user:s3cret%zz@h smtp://user:s3cret@-h
    `,
  ])('rejects %s without repeating the password', (text) => {
    expect(read(text)).toEqual(expect.any(String));
    expect(read(text)).not.toContain('s3cret');
  });
});

describe('a mail address', () => {
  it.each([
    ...words`a@b.c first.last+tag@mail.example.org o'brien@x.org root@localhost`,
    `${'a'.repeat(64)}@b.c`,
  ])('%s is valid', (text) => expect(isMailAddress(text)).toBe(true));

  it.each([
    '',
    'a',
    '@b.c',
    'a@',
    'a@b@c',
    'a b@c.d',
    'a@b.c,d@e.f',
    'a@b.c\r\nBcc: x@y.z',
    'a@b.c\n',
    'a@b.c\u2028',
    '<a@b.c>',
    'Name <a@b.c>',
    'a@b.c>',
    '"a b"@c.d',
    'a@[127.0.0.1]',
    'a@-b.c',
    'a@b..c',
    '.a@b.c',
    'a..b@c.d',
    'ä@b.c',
    'a@ü.c',
    'a@b.c SIZE=1',
    `${'a'.repeat(65)}@b.c`,
    `a@${'b'.repeat(64)}.c`,
    5,
    null,
    ['a@b.c'],
  ])('%j is invalid', (text) => expect(isMailAddress(text)).toBe(false));
});
