// The URLs of servers in the configuration, and mail addresses.
import { describe, expect, it } from 'vitest';
import { isMailAddress } from '../../src/core/alert-receiver.ts';
import type { Parsed } from '../../src/core/duration.ts';
import { parseMysqlUrl, parseSmtpUrl, placeOf, portOf } from '../../src/core/url/server-url.ts';
import { texts, words } from '../support/words.ts';

const readBy = <T>(parsed: Parsed<T>) => (parsed.ok ? parsed.value : parsed.message);
const readSmtp = (text: string) => readBy(parseSmtpUrl(text));
const readMysql = (text: string) => readBy(parseMysqlUrl(text));

it('portOf: returns 80 for an http URL without port', () => {
  expect(portOf(new URL('http://127.0.0.1:80').href)).toBe(80);
  expect(portOf('http://[::1]:6789')).toBe(6789);
});

describe('smtp.url', () => {
  it('smtp.url: default port of the scheme, STARTTLS where offered', () => {
    expect(readSmtp('smtp://mail.example.org')).toEqual({
      ...{ host: 'mail.example.org', port: 25, secure: false, requireTls: false, ignoreTls: false },
      ...{ verifyTls: true, login: null },
    });
    expect(readSmtp('smtps://mail.example.org')).toMatchObject({ port: 465, secure: true });
    expect(readSmtp('smtp://[::1]:2525')).toMatchObject({ host: '::1', port: 2525 });
  });

  it('smtp.url: no password in the clear unless configured', () => {
    expect(readSmtp('smtp://us%40er:p%3Ass@h:587')).toMatchObject({
      requireTls: true,
      login: { user: 'us@er', password: 'p:ss' },
    });
    expect(readSmtp('smtps://u:p@h')).toMatchObject({ secure: true, requireTls: false });
    expect(readSmtp('smtp://u:p@h?ignoreTLS=true')).toMatchObject({ requireTls: false, ignoreTls: true });
    expect(readSmtp('smtp://u:p@h?requireTLS=false')).toMatchObject({ requireTls: false });
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
    expect(readSmtp(text)).toEqual(expect.any(String));
    expect(readSmtp(text)).not.toContain('s3cret');
  });
});

describe('a mail address', () => {
  it.each([
    ...words`a@b.c first.last+tag@mail.example.org o'brien@x.org root@localhost`,
    `${'a'.repeat(64)}@b.c`,
  ])('%s is valid', (text) => expect(isMailAddress(text)).toBe(true));

  it.each([
    ...[
      '',
      'a@b.c\r\nBcc: x@y.z',
      'a@b.c\n',
      'a@b.c\u2028',
      `${'a'.repeat(65)}@b.c`,
      `a@${'b'.repeat(64)}.c`,
    ],
    ...texts`
      a | @b.c | a@ | a@b@c | a b@c.d | a@b.c,d@e.f | <a@b.c> | Name <a@b.c> | a@b.c> | "a b"@c.d |
      a@[127.0.0.1] | a@-b.c | a@b..c | .a@b.c | a..b@c.d | ä@b.c | a@ü.c | a@b.c SIZE=1
    `,
    ...[5, null, ['a@b.c']],
  ])('%j is invalid', (text) => expect(isMailAddress(text)).toBe(false));
});

describe('mysql.url', () => {
  it('mysql.url: user, optional password, host and database', () => {
    expect(readMysql('mysql://dq@db.example.org/dq')).toEqual({
      ...{ host: 'db.example.org', port: 3306, user: 'dq', password: '', database: 'dq', tls: 'off' },
    });
    expect(readMysql('mysql://us%40er:p%3As%2Fs@[::1]:3307/my-dq_1')).toEqual({
      ...{ host: '::1', port: 3307, user: 'us@er', password: 'p:s/s', database: 'my-dq_1', tls: 'off' },
    });
  });

  it('mysql.url: TLS is verified by default', () => {
    expect(readMysql('mysql://u@h/d?tls=true')).toMatchObject({ tls: 'verified' });
    expect(readMysql('mysql://u@h/d?tls=true&tls.rejectUnauthorized=false')).toMatchObject({
      tls: 'unverified',
    });
    expect(readMysql('mysql://u@h/d?tls=false')).toMatchObject({ tls: 'off' });
  });

  it('placeOf: has no login', () => {
    const parsed = parseMysqlUrl('mysql://u:secret@[::1]/d');
    expect(parsed.ok && placeOf(parsed.value)).toBe('[::1]:3306/d');
  });

  it.each([
    ...words`
      db.example.org http://u@h/d mysql://h/d mysql://:secret@h/d mysql://u:secret%zz@h/d
      mysql://u:secret@/d mysql://u:secret@h mysql://u:secret@h/ mysql://u:secret@h/a/b
    `,
    'mysql://u:secret@h/a`b',
    ...texts`
      mysql://u:secret@h:0/d | mysql://u:secret@h:99999/d | mysql://u:secret@h/d#x |
      mysql://u:secret@h/d?multipleStatements=true | mysql://u:secret@h/d?tls=maybe |
      mysql://u:secret@h/d?tls=true&tls=true | mysql://u:secret@h/d?tls.rejectUnauthorized=false |
      mysql://u:secret@h/ d | mysql://u:secret@h(x)/d
    `,
  ])('rejects %s without repeating it', (text) => {
    const message = readMysql(text);
    expect(message).toEqual(expect.any(String));
    expect(message).not.toContain('secret');
  });
});
