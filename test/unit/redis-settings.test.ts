// Redis addresses, and the durability of Redis configurations.
import { describe, expect, it } from 'vitest';
import { isSameLogin, isSamePlace, parseRedisUrl } from '../../src/core/url/redis-url.ts';
import { redisDurabilityOf } from '../../src/store/redis/client/durability.ts';

describe('redis addresses', () => {
  it('addresses: login and TLS do not change the place', () => {
    const stored = 'redis://one:pw@h';
    for (const same of ['redis://h:6379', 'redis://h/0', 'rediss://two:pw@h'])
      expect([isSamePlace(stored, same), isSameLogin(stored, same)]).toEqual([true, false]);
    for (const other of ['redis://one:pw@h:6380', 'redis://one:pw@h/1', 'redis+cluster://one:pw@h'])
      expect([isSamePlace(stored, other), isSameLogin(stored, other)]).toEqual([false, true]);
    const group = 'redis+sentinel://a,b:26380/m';
    expect(isSamePlace(group, 'redis+sentinel://:pw@b:26380,a:26379/m')).toBe(true);
    expect(isSamePlace(group, 'redis+sentinel://a,b:26380/n')).toBe(false);
  });

  it.each([
    'rediss+sentinel://:x@a/m?sentinelPassword=p',
    'rediss+sentinel://:x@a/m?sentinelPassword=p&sentinelUser=u',
    'rediss+sentinel://:x@a/m?sentinelTls=false',
    'rediss+sentinel://:x@a/m?servername=redis.test',
    'rediss+sentinel://:x@a/m?tls.rejectUnauthorized=false',
    'redis+sentinel://:x@a/m',
  ])('parameters and TLS: %s is the same place with another login', (other) => {
    const one = 'rediss+sentinel://:x@a/m';
    expect([isSamePlace(one, other), isSameLogin(one, other)]).toEqual([true, false]);
    expect(isSameLogin(other, other)).toBe(true);
  });

  it('parameters: those with their default change nothing', () => {
    const [one, other] = [
      'rediss+sentinel://a/m',
      'rediss+sentinel://a/m?sentinelTls=true&tls.rejectUnauthorized=true',
    ];
    expect(isSameLogin(one, other)).toBe(true);
  });

  const plain = {
    ...{ tls: false, master: null, user: null, password: null, database: 0, separator: '?' },
    ...{ sentinelUser: null, sentinelPassword: null, sentinelTls: false, servername: null, verifyTls: true },
  };
  it.each([
    ['redis://127.0.0.1', { ...plain, kind: 'server', hosts: [{ host: '127.0.0.1', port: 6379 }] }],
    [
      'redis://cache.internal:6380/',
      { ...plain, kind: 'server', hosts: [{ host: 'cache.internal', port: 6380 }] },
    ],
    [
      'rediss://user:p%40ss@[::1]:6379/3',
      {
        ...plain,
        ...{ kind: 'server', tls: true, user: 'user', password: 'p@ss', database: 3 },
        hosts: [{ host: '::1', port: 6379 }],
      },
    ],
    [
      'redis://:secret@h',
      { ...plain, kind: 'server', password: 'secret', hosts: [{ host: 'h', port: 6379 }] },
    ],
    [
      'redis+sentinel://:x@a,b:26380/my-master',
      {
        ...plain,
        kind: 'sentinel',
        password: 'x',
        master: 'my-master',
        hosts: [
          { host: 'a', port: 26_379 },
          { host: 'b', port: 26_380 },
        ],
      },
    ],
    [
      'redis+cluster://a:7000,[::1]:7001',
      {
        ...plain,
        kind: 'cluster',
        hosts: [
          { host: 'a', port: 7000 },
          { host: '::1', port: 7001 },
        ],
      },
    ],
    [
      'rediss+sentinel://u:x@a/m?sentinelUser=s&sentinelPassword=p%26%2B&servername=redis.test',
      {
        ...plain,
        ...{ kind: 'sentinel', tls: true, user: 'u', password: 'x', master: 'm', separator: '&' },
        ...{ sentinelUser: 's', sentinelPassword: 'p&+', sentinelTls: true, servername: 'redis.test' },
        hosts: [{ host: 'a', port: 26_379 }],
      },
    ],
    [
      'rediss+sentinel://a/m?sentinelTls=false',
      {
        ...plain,
        kind: 'sentinel',
        tls: true,
        master: 'm',
        separator: '&',
        hosts: [{ host: 'a', port: 26_379 }],
      },
    ],
    [
      'rediss+cluster://:x@a,b:7000?tls.rejectUnauthorized=false',
      {
        ...plain,
        ...{ kind: 'cluster', tls: true, password: 'x', verifyTls: false, separator: '&' },
        hosts: [
          { host: 'a', port: 6379 },
          { host: 'b', port: 7000 },
        ],
      },
    ],
  ])('reads %s', (url, expected) => {
    expect(parseRedisUrl(url)).toMatchObject({ ok: true, value: expected });
  });

  it.each([
    ['127.0.0.1:6379', /must begin with redis:/],
    ['http://h', /must begin with redis:/],
    ['constructor://h', /must begin with redis:/],
    ['redis://', /must begin with redis:.* name a host/],
    ['redis://h:0', /must be redis:/],
    ['redis://h:65536', /must be redis:/],
    ['redis://a,b', /must be redis:/],
    ['redis://h/a', /number of a database/],
    ['redis://h?db=3', /^unknown parameter after the question mark; this form of address has none; /],
    ['rediss://h?db=3', /question mark; write servername, tls\.rejectUnauthorized; .* in a password is %3F$/],
    // sentinelTls and sentinelPassword belong to other schemes.
    ['rediss://h?tls=false', /did you mean tls\.rejectUnauthorized\?$/],
    ['redis://h?password=a', /question mark; this form of address has none; /],
    [
      'redis+sentinel://h/m?sentinelpass=x',
      /^unknown parameter "sentinelpass"; did you mean sentinelPassword\?$/,
    ],
    [
      'redis://h?sentinelPassword=x',
      /^sentinelPassword belongs to redis\+sentinel:\/\/ or rediss\+sentinel:\/\/$/,
    ],
    ['redis+sentinel://h/m?sentinelTls=false', /^sentinelTls belongs to rediss\+sentinel:\/\/$/],
    [
      'redis+cluster://h?servername=a.b',
      /^servername belongs to rediss:\/\/, rediss\+sentinel:\/\/ or rediss\+cluster:\/\/$/,
    ],
    ['redis+sentinel://h/m?sentinelUser=u', /^sentinelUser needs sentinelPassword$/],
    ['redis+sentinel://h/m?sentinelPassword=', /^sentinelPassword must not be empty$/],
    ['redis+sentinel://h/m?sentinelPassword=%', /^sentinelPassword must be percent-encoded$/],
    ['rediss://h?servername=a&servername=a', /^has servername twice$/],
    ['rediss://h?servername=10.0.0.1', /^servername must be a host name$/],
    ['rediss://h?servername=[::1]', /^servername must be a host name$/],
    ['rediss://h?tls.rejectUnauthorized=no', /^tls\.rejectUnauthorized must be true or false$/],
    ['rediss://h?servername', /question mark; write servername, /],
    // The rest of a password that is not percent-encoded.
    ['redis://u:1/2?s3cret@h', /^(?!.*s3cret)unknown parameter after the question mark; /],
    ['redis://u:1/2?Secret=a@h', /^(?!.*Secret)unknown parameter after the question mark; /],
    ['redis://h#x', /must begin|must be/],
    ['redis://h h', /must begin/],
    ['redis://user@h', /needs a password/],
    ['redis://u:%@h', /percent-encoded/],
    ['redis+sentinel://a,b', /sentinels' name of the master/],
    ['redis+cluster://a/0', /has no database/],
    ['redis+cluster://a,,b', /must be redis\+cluster/],
  ])('rejects %s', (url, message) => {
    const parsed = parseRedisUrl(url);
    expect(parsed.ok ? '' : parsed.message).toMatch(message);
  });

  it('messages never repeat a password', () => {
    expect(JSON.stringify(parseRedisUrl('redis://u:s3cret@h/x'))).not.toContain('s3cret');
    const shown = (url: string) => {
      const parsed = parseRedisUrl(url);
      return parsed.ok ? parsed.value.shown : parsed.message;
    };
    expect(shown('redis://u:s3cret@h:6380/2')).toBe('redis://h:6380/2');
    expect(shown('redis+sentinel://:s3cret@a,b:1/m')).toBe('redis+sentinel://a,b:1/m');
    expect(shown('rediss+sentinel://:s3cret@a/m?sentinelPassword=s3cret&servername=x')).toBe(
      'rediss+sentinel://a/m',
    );
    for (const query of ['sentinelPassword=s3cret%', 'sentinelPassword=s3cret&x=1', 's3cret=1', 'x=s3cret@h'])
      expect(shown(`redis://h?${query}`)).not.toMatch(/s3cret/);
  });
});

describe('durability of Redis', () => {
  const base = { 'maxmemory-policy': 'noeviction', maxmemory: '0', save: '3600 1' };
  it.each([
    [{ ...base, appendonly: 'yes', appendfsync: 'always' }, /always: survives kill -9/],
    [{ ...base, appendonly: 'yes', appendfsync: 'everysec' }, /everysec: .* up to 2 s/],
    [{ ...base, appendonly: 'yes', appendfsync: 'no' }, /appendfsync no: a power cut/],
    [{ ...base, appendonly: 'no', appendfsync: 'everysec' }, /without an append-only file: a restart/],
    [{ ...base, save: '', appendonly: 'no' }, /loses every job/],
    [null, /unknown durability/],
  ])('%j', (settings, sentence) => {
    expect(redisDurabilityOf(settings).durability).toMatch(sentence);
  });

  it('warns of eviction and memory-only data only', () => {
    const always = { ...base, appendonly: 'yes', appendfsync: 'always' };
    expect(redisDurabilityOf(always).warnings).toEqual([]);
    expect(redisDurabilityOf({ ...base, appendonly: 'no' }).warnings).toEqual([]);
    for (const [settings, advice] of [
      [{ ...always, 'maxmemory-policy': 'allkeys-lru' }, 'set noeviction'],
      [{ ...always, 'maxmemory-policy': 'volatile-ttl' }, 'set noeviction'],
      [{ ...base, save: '', appendonly: 'no' }, 'set appendonly yes'],
    ] as const)
      expect(redisDurabilityOf(settings).warnings).toEqual([expect.stringContaining(advice)]);
  });
});
