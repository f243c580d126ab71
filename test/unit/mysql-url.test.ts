import { describe, expect, it } from 'vitest';
import { parseMysqlUrl, placeOf } from '../../src/core/url/server-url.ts';
import { texts, words } from '../support/words.ts';

const read = (text: string) => {
  const parsed = parseMysqlUrl(text);
  return parsed.ok ? parsed.value : parsed.message;
};

describe('mysql.url', () => {
  it('mysql.url: user, optional password, host and database', () => {
    expect(read('mysql://dq@db.example.org/dq')).toEqual({
      ...{ host: 'db.example.org', port: 3306, user: 'dq', password: '', database: 'dq', tls: 'off' },
    });
    expect(read('mysql://us%40er:p%3As%2Fs@[::1]:3307/my-dq_1')).toEqual({
      ...{ host: '::1', port: 3307, user: 'us@er', password: 'p:s/s', database: 'my-dq_1', tls: 'off' },
    });
  });

  it('mysql.url: TLS is verified by default', () => {
    expect(read('mysql://u@h/d?tls=true')).toMatchObject({ tls: 'verified' });
    expect(read('mysql://u@h/d?tls=true&tls.rejectUnauthorized=false')).toMatchObject({ tls: 'unverified' });
    expect(read('mysql://u@h/d?tls=false')).toMatchObject({ tls: 'off' });
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
    const message = read(text);
    expect(message).toEqual(expect.any(String));
    expect(message).not.toContain('secret');
  });
});
