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

  const plain = { tls: false, master: null, user: null, password: null, database: 0 };
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
    ['redis://h?db=3', /must begin|must be/],
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
  });
});

describe('durability of Redis', () => {
  const base = { maxmemoryPolicy: 'noeviction', maxmemory: '0', save: '3600 1' };
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
      [{ ...always, maxmemoryPolicy: 'allkeys-lru' }, 'set noeviction'],
      [{ ...always, maxmemoryPolicy: 'volatile-ttl' }, 'set noeviction'],
      [{ ...base, save: '', appendonly: 'no' }, 'set appendonly yes'],
    ] as const)
      expect(redisDurabilityOf(settings).warnings).toEqual([expect.stringContaining(advice)]);
  });
});
