// Receivers whose certificate or name is wrong.
import type { LookupFunction, Socket } from 'node:net';
import nodeTls, { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import { expect, it, onTestFinished } from 'vitest';
import { startDnsServer } from '../support/dns-server.ts';
import { listening } from '../support/listening.ts';
import { startRawServer } from '../support/raw-server.ts';
import { selfSigned } from '../support/self-signed.ts';
import { at, check, type Rows } from './attempt-table.ts';
import { closing, type Endpoint, ok, raw, replying } from './receivers.ts';

it('TLS: missing, too old, or with the certificate of another name', async () => {
  // A Node that was started with flags for old servers.
  const { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS } = nodeTls;
  Object.assign(nodeTls, { DEFAULT_MIN_VERSION: 'TLSv1', DEFAULT_CIPHERS: 'DEFAULT@SECLEVEL=0' });
  onTestFinished(() => void Object.assign(nodeTls, { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS }));
  const skip = { dangerouslySkipTlsVerify: true } as const;
  const old = (version: 'TLSv1' | 'TLSv1.1') =>
    tls({ minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' });
  const rows: Rows = [
    ['self-signed', 'retry: tls (0 requests)', tls({})],
    ['self-signed, not verified', 'ack: 200', tls({}), skip],
    // Not verified, so dq rejects the version and not the name.
    ['TLS 1.0', 'retry: tls (0 requests)', old('TLSv1'), skip],
    ['TLS 1.1', 'retry: tls (0 requests)', old('TLSv1.1'), skip],
    ['TLS 1.2', 'ack: 200', tls({ maxVersion: 'TLSv1.2' }), skip],
    ['plain HTTP', 'retry: tls', https(replying('HTTP/1.1 400 Bad Request\r\n\r\n'))],
    ['silence', 'retry: timeout', https(raw(() => {}))],
    ['a reset in the handshake', 'retry: tls', https(raw((socket) => void socket.resetAndDestroy()))],
    ['an end in the handshake', 'retry: tls', https(closing(''))],
    ['half a record', 'retry: timeout', https(replying(Buffer.from([0x16, 3, 3, 0, 200, 2])))],
    ['an alert', 'retry: tls', https(replying(Buffer.from([0x15, 3, 3, 0, 2, 2, 40])))],
    ['TLS under http', 'retry: reset', http(tls({}))],
    ...(['TLSv1.2', 'TLSv1.3'] as const).map(
      (version) =>
        [
          `a client certificate under ${version}`,
          'retry: tls (0 requests)',
          tls({ requestCert: true, minVersion: version, maxVersion: version }),
          skip,
        ] as const,
    ),
  ];
  const rig = await check(rows);
  expect(rig.notified().find(({ topic }) => topic === 't0')?.['detail']).toBe('DEPTH_ZERO_SELF_SIGNED_CERT');
});

it('a host name with a dot at its end: TLS names the host without it', async () => {
  const names: unknown[] = [];
  const SNICallback: TlsOptions['SNICallback'] = (name, done) => {
    names.push(name);
    done(null);
  };
  const { url } = await tls({ SNICallback })();
  const rows: Rows = [
    [
      'localhost.',
      'ack: 200',
      at(url.replace('127.0.0.1', 'localhost.')),
      { dangerouslySkipTlsVerify: true },
    ],
  ];
  const lookup: LookupFunction = (_name, _options, found) =>
    found(null, [{ address: '127.0.0.1', family: 4 }]);
  await check(rows, { lookup });
  expect(names).toEqual(['localhost']);
});

const inScheme = (scheme: string) => (endpoint: () => Promise<Endpoint>) => async () => {
  const { url } = await endpoint();
  // The server can count no whole request.
  return at(url.replace(/^https?/, scheme));
};
const https = inScheme('https');
const http = inScheme('http');

/** Answers every request after the handshake; `requests` are those that it received. */
function tls(options: TlsOptions): () => Promise<Endpoint> {
  return async () => {
    const received: string[] = [];
    const open = new Set<Socket>();
    const server = createTlsServer({ ...selfSigned, ...options }, (socket) => {
      socket.on('data', (data) => {
        received.push(data.toString('latin1'));
        socket.write(ok);
      });
      socket.on('error', () => {});
    });
    server.on('connection', (socket: Socket) => {
      open.add(socket);
      socket.on('close', () => open.delete(socket));
      socket.on('error', () => {});
    });
    server.on('tlsClientError', () => {});
    const port = await listening(server);
    return { url: `https://127.0.0.1:${port}/`, server: { received, open } };
  };
}

it('names that do not resolve; a hanging one delays no other', async () => {
  const receiver = await startRawServer((socket) => void socket.write(ok));
  const dns = await startDnsServer((name) => {
    if (name === 'good.test') return ['127.0.0.1'];
    if (name === 'empty.test') return [];
    if (name === 'absent.test') return 'NXDOMAIN';
    if (name === 'broken.test') return 'SERVFAIL';
    if (name === 'refused.test') return 'REFUSED';
    if (name === 'garbage.test') return 'garbage';
    if (name === 'first-away.test') return ['127.255.255.255', '127.0.0.1'];
    return 'silence';
  });
  const named = (name: string) => at(`http://${name}:${receiver.port}/`);
  const rig = await check(
    [
      ['resolves', 'ack: 200', named('good.test')],
      ['has an unreachable first address', 'ack: 200', named('first-away.test')],
      ['is absent', 'retry: dns', named('absent.test')],
      ['makes the server fail', 'retry: dns', named('broken.test')],
      ['is refused by the server', 'retry: dns', named('refused.test')],
      ['has no addresses', 'retry: dns', named('empty.test')],
      ['is answered with garbage', 'retry: dns', named('garbage.test')],
      ['is not answered in the resolver’s time', 'retry: dns', named('silent.test'), { timeoutMs: 8_000 }],
      ['is not answered in the topic’s time', 'retry: timeout', named('silent-too.test'), { timeoutMs: 150 }],
    ],
    { lookup: dns.lookup },
  );
  const silent = rig.notified().findIndex(({ topic }) => topic === 't7');
  expect(rig.notified().findIndex(({ topic }) => topic === 't0')).toBeLessThan(silent);
});
