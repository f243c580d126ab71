// What an operator reads about a server on the way to Redis that cannot be used: the server, and the remedy.
import { describe, expect, it } from 'vitest';
import { messageOf } from '../../src/core/errors.ts';
import { redisAddress } from '../../src/core/url/redis-url.ts';
import { DialFailure, HandshakeFailure } from '../../src/runtime/dial.ts';
import { failureOf, isDenied } from '../../src/store/redis/client/failures.ts';
import { type Hop, type Phase, Route, UnknownMaster } from '../../src/store/redis/client/hops.ts';

const group = redisAddress('rediss+sentinel://s1/m');
const sentinel: Hop = { role: 'sentinel', host: 's1', port: 26_379 };
const master: Hop = { role: 'master', host: '10.0.0.5', port: 6379, namedBy: 's1:26379' };
const cluster = redisAddress('rediss+cluster://a?servername=redis.test');
const node: Hop = { role: 'node', host: '::1', port: 7000 };

const coded = (code: string, message = 'words', more: object = {}) =>
  Object.assign(new Error(message), { code, ...more });
const reply = (message: string) => Object.assign(new Error(message), { name: 'ReplyError' });
const named = (subjectaltname: string | undefined) =>
  coded('ERR_TLS_CERT_ALTNAME_INVALID', 'words', { cert: { subjectaltname } });
const trust = 'start dq with NODE_EXTRA_CA_CERTS=FILE';

describe('a server on the way to Redis', () => {
  it.each<[Error, Phase, string]>([
    [reply('NOAUTH Authentication required.'), 'dial', 'needs a password; add ?sentinelPassword='],
    [reply('WRONGPASS invalid.'), 'dial', 'WRONGPASS invalid; correct sentinelPassword'],
    [
      reply('ERR AUTH <password> called without any password configured'),
      'dial',
      'has no password; remove sentinelPassword',
    ],
    [reply('NOPERM no permissions'), 'dial', 'NOPERM no permissions'],
    [new UnknownMaster('knows no master m'), 'dial', 'knows no master m'],
    [coded('DEPTH_ZERO_SELF_SIGNED_CERT'), 'dial', `self-signed certificate; ${trust}`],
    [coded('UNABLE_TO_VERIFY_LEAF_SIGNATURE'), 'dial', `certificate of an unknown authority; ${trust}`],
    [coded('CERT_HAS_EXPIRED'), 'dial', 'the certificate has expired; replace it on that server'],
    [
      new HandshakeFailure('ETIMEDOUT', 'ETIMEDOUT s1'),
      'dial',
      'connect ETIMEDOUT s1; if it serves no TLS, add ?sentinelTls=false',
    ],
    [
      coded('EPROTO', 'wrong version number'),
      'dial',
      'wrong version number; if it serves no TLS, add ?sentinelTls=false',
    ],
    [
      new DialFailure('ECONNREFUSED', 'ECONNREFUSED 10.0.0.1:1'),
      'dial',
      'connect ECONNREFUSED 10.0.0.1:1; start it, or correct the address',
    ],
    [
      named('DNS:*.test, DNS:other'),
      'dial',
      'the certificate is for *.test, other, not for s1; name the server so, or make a certificate for s1',
    ],
    [named(undefined), 'dial', 'the certificate names no server; make one for s1'],
    [new Error('Command timed out'), 'dial', 'gives no answer; start it, or correct the address'],
  ])('sentinel: %s in %s', (error, phase, words) => {
    expect(new Route(group).failed(sentinel, error, phase).message).toBe(`sentinel s1:26379: ${words}`);
  });

  it.each<[Error, Phase, string]>([
    [
      reply('NOAUTH Authentication required.'),
      'set-up',
      'needs a password; write :password@ before the first host of the address',
    ],
    [
      named('DNS:redis.test, IP Address:10.0.0.6'),
      'dial',
      'the certificate is for redis.test, 10.0.0.6; if that is this server, add ?servername=redis.test',
    ],
    [
      named('DNS:*.test'),
      'dial',
      'the certificate is for *.test; if that is this server, add ?servername= with a name of that domain',
    ],
    [
      named('IP Address:10.0.0.6'),
      'dial',
      'the certificate is for 10.0.0.6, not for 10.0.0.5; name the server so, or make a certificate for 10.0.0.5',
    ],
    [
      coded('ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED'),
      'set-up',
      'wants a certificate of its client, which dq does not have; set tls-auth-clients optional on that server',
    ],
    [
      coded('ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE'),
      'dial',
      'ended the TLS handshake: it wants a certificate of its client (set tls-auth-clients optional on that server), or shares no cipher with dq (tls-ciphers)',
    ],
    [
      coded('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', '80:error:0A00042E:SSL routines:s3.c:1601', {
        reason: 'tlsv1 alert protocol version',
      }),
      'dial',
      'ended the TLS handshake: tlsv1 alert protocol version; its log and its tls-protocols have the cause',
    ],
    [coded('ECONNRESET', 'read ECONNRESET', { syscall: 'read' }), 'ready', 'read ECONNRESET'],
    [
      new DialFailure('ETIMEDOUT', 'ETIMEDOUT 10.0.0.5:6379'),
      'dial',
      'connect ETIMEDOUT 10.0.0.5:6379; start it, or let the sentinels name an address that this machine reaches (replica-announce-ip)',
    ],
  ])('master: %s in %s', (error, phase, words) => {
    expect(new Route(group).failed(master, error, phase).message).toBe(
      `master 10.0.0.5:6379, named by sentinel s1:26379: ${words}`,
    );
  });

  it('node: an address of IPv6 is in brackets; a wrong servername is named', () => {
    expect(new Route(cluster).failed(node, named('DNS:a.test'), 'dial').message).toBe(
      'node [::1]:7000: the certificate is for a.test, not for redis.test; correct servername, or the certificate of that server',
    );
  });

  it('the only server: its words alone, because the address names it', () => {
    const route = new Route(redisAddress('redis://h'));
    const refused = new DialFailure('ECONNREFUSED', 'ECONNREFUSED 127.0.0.1:6379');
    expect(messageOf(route.located(refused, 'dial'))).toBe('connect ECONNREFUSED 127.0.0.1:6379');
    const reset = coded('ECONNRESET', 'read ECONNRESET');
    expect(messageOf(route.located(reset, 'set-up'))).toBe(
      'read ECONNRESET; if it serves TLS, begin the address with rediss',
    );
    expect(messageOf(route.located(reset, 'ready'))).toBe('read ECONNRESET');
  });

  it('a failure means for a caller what its cause means', () => {
    const route = new Route(group);
    const denied = route.failed(master, reply('WRONGPASS invalid'), 'set-up');
    expect([isDenied(denied), failureOf(denied)]).toEqual([
      true,
      { kind: 'not_stored', code: 'redis_denied' },
    ]);
    const lost = route.failed(master, coded('ECONNRESET'), 'ready');
    expect(failureOf(lost)).toEqual({ kind: 'unknown', code: 'redis_no_answer' });
  });

  it('of several failures the one at the latest step counts', () => {
    const route = new Route(group);
    route.failed(sentinel, new DialFailure('ECONNREFUSED', 'ECONNREFUSED s1'), 'dial');
    route.failed({ ...sentinel, host: 's2' }, reply('NOAUTH'), 'dial');
    route.failed({ ...sentinel, host: 's3' }, coded('CERT_HAS_EXPIRED'), 'dial');
    expect(route.failure?.message).toMatch(/^sentinel s2:26379: needs a password/);
    route.reached('s2:26379');
    expect(route.failure?.message).toMatch(/^sentinel s3:26379: the certificate has expired/);
    route.clear();
    expect(route.failure).toBeNull();
  });
});
