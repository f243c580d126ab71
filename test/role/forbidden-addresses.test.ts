// Addresses that must not be called, in every spelling: rejected at registration, and not dialled where
// they are in the registry or behind a name.
import { createServer, type Server } from 'node:http';
import type { AddressInfo, LookupFunction } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { startIntake } from '../support/intake.ts';
import { until } from '../support/until.ts';
import { words } from '../support/words.ts';
import { type Rig, startRig } from './rig.ts';

/** This machine, its networks and its neighbours, for a dq that may call public addresses only. */
const notPublic = [
  // loopback, as it is and as the URL parser reads it
  ...words`127.0.0.1 127.1 127.0.1 127.255.255.254 2130706433 0x7f000001 0x7f.1 017700000001`,
  ...words`0177.0.0.01 0x7F.0x0.0x0.0x1 127.0.0.1. ①②⑦.⓪.⓪.① １２７.０.０.１ 127。0。0。1 %31%32%37.0.0.1`,
  ...['localhost', 'LOCALHOST', 'localhost.', 'a.localhost', 'a.b.localhost.', 'loc%61lhost', 'ⓛⓞⓒⓐⓛⓗⓞⓢⓣ'],
  ...words`[::1] [0:0:0:0:0:0:0:1] [::0001] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [::7f00:1]`,
  // IPv4 carried in IPv6: translated, NAT64, 6to4, Teredo
  ...words`[::ffff:0:7f00:1] [64:ff9b::7f00:1] [64:ff9b::127.0.0.1] [64:ff9b:1::7f00:1] [2002:7f00:1::]`,
  ...words`
    [2002:7f00:0001::1] [2001:0:7f00:1::] [2001:0:808:808::80ff:fffe] [64:ff9b::a00:1] [2002:a9fe:a9fe::]
  `,
  // private, shared, link-local and metadata
  ...words`10.0.0.1 10.255.255.255 0xa.1 172.16.0.1 172.31.255.255 192.168.0.1 192.168.257 3232235777`,
  ...words`100.64.0.1 100.127.255.255 169.254.1.1 169.254.169.254 0xa9fea9fe 2852039166 [::ffff:a9fe:a9fe]`,
  ...['100.100.100.200', '[fd00:ec2::254]', '[fe80::1]', '[febf::1]', '[fec0::1]', '[fc00::1]', '[fdff::1]'],
  // this network, shared, documentation, benchmarks, multicast, reserved
  ...words`0.0.0.0 0 0.1.2.3 [::] [::ffff:0.0.0.0] 255.255.255.255 224.0.0.1 239.255.255.255`,
  ...['240.0.0.1', '192.0.0.1', '192.0.2.1', '198.18.0.1', '198.51.100.1', '203.0.113.1', '192.88.99.1'],
  ...['[ff02::1]', '[2001:db8::1]', '[100::1]', '[3fff::1]', '[5f00::1]', '[::8.8.8.8:1]'],
];
/** Under every policy. */
const neverCalled = [
  ...words`169.254.169.254 169.254.0.1 0xa9fea9fe 2852039166 169.254.43518 [::ffff:169.254.169.254]`,
  ...words`
    [64:ff9b::a9fe:a9fe] [2002:a9fe:a9fe::] 100.100.100.200 0x64.100.100.200 [fd00:ec2::254]
    [fd00:0ec2:0::0254]
  `,
  ...words`[fe80::1] [febf:ffff::1] 224.0.0.1 [ff02::1] [ff0e::1] 255.255.255.255 0.0.0.0 0 [::]`,
];

const registered = async (dq: Awaited<ReturnType<typeof startIntake>>, callbackUrl: string) =>
  dq.api('POST', '/v1/topics', { topic: 't', callbackUrl });
const refusal = { status: 400, body: { code: 'invalid', errors: [{ field: 'callbackUrl' }] } };

describe('registration', () => {
  it.each([
    ['public', notPublic],
    ['private', neverCalled],
    ['allowlist', [...notPublic, '8.8.8.8', '[2606:4700::1111]']],
  ])('policy %s: rejects every spelling', async (policy, hosts) => {
    const dq = await startIntake({ config: { 'egress.policy': policy } });
    expect(hosts.length).toBeGreaterThan(20);
    for (const host of hosts)
      for (const url of [`http://${host}/`, `https://${host}:8443/x?y=z`])
        expect(await registered(dq, url), url).toMatchObject(refusal);
    expect((await dq.api('GET', '/v1/topics')).body.items).toEqual([]);
  });

  it('the table is long enough, and public addresses are accepted', async () => {
    expect(new Set(notPublic).size).toBeGreaterThanOrEqual(60);
    const dq = await startIntake({ config: { 'egress.policy': 'public' } });
    for (const [n, host] of words`8.8.8.8 [2606:4700::1111] [64:ff9b::808:808] a.example 1.1`.entries())
      expect(
        (await dq.api('POST', '/v1/topics', { topic: `t${n}`, callbackUrl: `http://${host}/` })).status,
        host,
      ).toBe(201);
  });

  it('rejects its own listener in every spelling, despite egress.allow', async () => {
    const dq = await startIntake({ config: { 'egress.allow': ['127.0.0.0/8', '::/0', '0.0.0.0/0'] } });
    const own = words`127.0.0.1 127.1 2130706433 localhost localhost. x.localhost [::ffff:7f00:1]`;
    for (const host of [...own, '0.0.0.0', '[::]', '[64:ff9b::7f00:1]', '[2002:7f00:1::]'])
      expect(await registered(dq, `http://${host}:${dq.port}/v1/topics/t/jobs`), host).toMatchObject(refusal);
    const other = dq.port === 65_535 ? 1 : dq.port + 1;
    expect((await registered(dq, `http://127.0.0.1:${other}/`)).status).toBe(201);
  });

  it('rejects URLs without HTTP, with a password, or that cannot be dialled', async () => {
    const dq = await startIntake();
    for (const url of [
      ...words`file:///etc/passwd ftp://a.example/ unix:/run/x.sock data:text/plain,x gopher://a.example/`,
      ...['javascript:1', 'ws://a.example/', 'http:', 'http://', 'http://[::1', 'http://a b/', 'http://%00/'],
      ...['http://u:p@a.example/', 'http://u@a.example/', 'http://a.example:0/', 'http://a.example:65536/'],
      ...words`
        http://a.example/#f http://1.2.3.4.5/ http://256.1.1.1/ http://0x100000000/ http://[fe80::1%25eth0]/
      `,
    ])
      expect(await registered(dq, url), url).toMatchObject(refusal);
  });
});

interface Listeners {
  readonly port: number;
  connections(): number;
}

/** One port on 127.0.0.1 and ::1; without ::1, on the first alone. */
async function listen(): Promise<Listeners> {
  let connections = 0;
  const servers = [listener(), listener()] as const;
  function listener(): Server {
    const server = createServer((_request, response) => void response.end('{}'));
    server.on('connection', () => {
      connections += 1;
    });
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return server;
  }
  await new Promise<void>((resolve) => servers[0].listen(0, '127.0.0.1', resolve));
  const { port } = servers[0].address() as AddressInfo;
  const code = await new Promise<string | undefined>((resolve) => {
    servers[1].once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
    servers[1].listen(port, '::1', () => resolve(undefined));
  });
  // Another process has this port on ::1: try another port.
  if (code === 'EADDRINUSE') return listen();
  expect([undefined, 'EADDRNOTAVAIL', 'EAFNOSUPPORT']).toContain(code);
  return { port, connections: () => connections };
}

/** One attempt at each URL, written into the registry past the checks of registration. Returns the reasons
 *  by URL. */
async function attempts(rig: Rig, urls: readonly string[]): Promise<Record<string, unknown>> {
  for (const [n, url] of urls.entries()) {
    await rig.topic(`t${n}`, url, { maxAttempts: 1, timeoutMs: 2_000 });
    await rig.push(`t${n}`, 'a');
  }
  await until('every attempt', () => rig.notified().length >= urls.length);
  return Object.fromEntries(
    urls.map((url, n) => [
      url,
      rig.notified().find(({ topic }) => topic === `t${n}`)?.['reason'] ?? 'delivered',
    ]),
  );
}
const all = (urls: readonly string[], reason: string) => Object.fromEntries(urls.map((url) => [url, reason]));

const resolvingTo = (...addresses: string[]): LookupFunction => {
  return (_name, _options, found) =>
    found(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
};

describe('dialling', () => {
  it('policy public: no connection to any of them', async () => {
    const rig = await startRig();
    const listeners = await listen();
    await rig.run(
      createNotifier(rig.context({ config: { 'egress.policy': 'public' } }), {
        lookup: resolvingTo('127.0.0.1'),
      }),
    );
    const urls = notPublic
      .map((host) => `http://${host}:${listeners.port}/`)
      .filter((url) => URL.canParse(url));
    expect(urls.length).toBeGreaterThanOrEqual(60);
    expect(await attempts(rig, urls)).toEqual(all(urls, 'blocked_address'));
    expect(listeners.connections()).toBe(0);
    expect(rig.notified().map(({ status, reply }) => [status, reply])).toEqual(urls.map(() => [null, '']));
  });

  it('egress.deny: no connection, to the address or to a name for it', async () => {
    const rig = await startRig();
    const listeners = await listen();
    const ctx = rig.context({
      config: { 'egress.deny': ['127.0.0.1', '::1'], 'egress.allow': ['127.0.0.0/8', '::1'] },
    });
    await rig.run(createNotifier(ctx, { lookup: resolvingTo('::ffff:127.0.0.1') }));
    const hosts = ['127.0.0.1', '127.1', '[::1]', '[::ffff:7f00:1]', 'a.example', 'localhost'];
    const urls = hosts.map((host) => `http://${host}:${listeners.port}/`);
    expect(await attempts(rig, urls)).toEqual(all(urls, 'blocked_address'));
    expect(listeners.connections()).toBe(0);
  });

  it('own listener: no connection, despite egress.allow', async () => {
    const rig = await startRig();
    const listeners = await listen();
    const ctx = rig.context({
      config: {
        'server.host': '0.0.0.0',
        'server.port': listeners.port,
        'egress.allow': ['0.0.0.0/0', '::/0'],
      },
    });
    await rig.run(createNotifier(ctx, { lookup: resolvingTo('127.0.0.1') }));
    const hosts = ['127.0.0.1', '127.9.9.9', '[::1]', '0.0.0.0', '[::]', '[::ffff:7f00:1]', 'a.example'];
    const urls = hosts.map((host) => `http://${host}:${listeners.port}/`);
    expect(await attempts(rig, urls)).toEqual(all(urls, 'blocked_address'));
    expect(listeners.connections()).toBe(0);
  });

  it.each([
    ['redis://', ''],
    ['redis+sentinel://127.0.0.1:1,', '/dq'],
    ['redis+cluster://127.0.0.1:1,', ''],
  ])('own Redis of %s: no connection, despite egress.allow', async (before, after) => {
    const rig = await startRig();
    const listeners = await listen();
    const ctx = rig.context({
      config: {
        redis: [`${before}127.0.0.1:${listeners.port}${after}`],
        'egress.allow': ['0.0.0.0/0', '::/0'],
      },
    });
    await rig.run(createNotifier(ctx));
    const url = `http://127.0.0.1:${listeners.port}/`;
    expect(await attempts(rig, [url])).toEqual({ [url]: 'blocked_address' });
    expect(listeners.connections()).toBe(0);
  });

  it.each([
    ['169.254.169.254', '127.0.0.1'],
    ['127.0.0.1', '169.254.169.254'],
    ['::1', 'fe80::1'],
    ['127.0.0.1', '64:ff9b::a9fe:a9fe'],
    ['127.0.0.1', 'not an address'],
    ['127.0.0.1', 'localhost'],
    ['127.0.0.1', ''],
  ])('a name with %s and %s: only the allowed address is dialled', async (...addresses) => {
    const rig = await startRig();
    const listeners = await listen();
    await rig.run(createNotifier(rig.context(), { lookup: resolvingTo(...addresses) }));
    const url = `http://two.example:${listeners.port}/`;
    expect(await attempts(rig, [url])).toEqual({ [url]: 'delivered' });
    expect(listeners.connections()).toBe(1);
  });

  it('a name with forbidden addresses only is rejected', async () => {
    const rig = await startRig();
    const listeners = await listen();
    const lookup = resolvingTo('169.254.169.254', 'fe80::1', '64:ff9b::a9fe:a9fe', 'localhost', '');
    await rig.run(createNotifier(rig.context(), { lookup }));
    const url = `http://two.example:${listeners.port}/`;
    expect(await attempts(rig, [url])).toEqual({ [url]: 'blocked_address' });
    expect(listeners.connections()).toBe(0);
  });

  it('a name that changes: only judged addresses are dialled', async () => {
    const rig = await startRig();
    const listeners = await listen();
    // First an allowed address without a listener, then the forbidden one with the listener.
    const dns = await startDnsServer((_name, n) => [n === 1 ? '127.0.0.2' : '127.0.0.1'], 30_000);
    const ctx = rig.context({ config: { 'egress.deny': ['127.0.0.1'] } });
    await rig.run(createNotifier(ctx, { lookup: dns.lookup, lookupFreshMs: 0 }));
    await rig.topic('t', `http://turning.example:${listeners.port}/`, { timeoutMs: 30_000 });
    await rig.push('t', 'a');
    await until('the first attempt', () => rig.notified().length === 1);
    expect(dns.asked).toEqual(['turning.example']);
    await rig.push('t', 'b');
    await until('the second attempt', () => rig.notified().length === 2);
    expect(rig.notified().map(({ reason }) => reason)).toEqual(['connect', 'blocked_address']);
    expect(dns.asked).toEqual(['turning.example', 'turning.example']);
    expect(listeners.connections()).toBe(0);
  });

  it('a rejected address does not reveal whether anything listens', async () => {
    const rig = await startRig();
    const listeners = await listen();
    await rig.run(createNotifier(rig.context({ config: { 'egress.policy': 'public' } })));
    await attempts(rig, [`http://127.0.0.1:${listeners.port}/`, 'http://127.0.0.1:9/']);
    const recorded = await Promise.all(
      ['t0', 't1'].map(async (topic) => {
        const job = await until('burial', async () => {
          const found = await rig.store.jobs.get({ topic, id: 'a' });
          return found?.state === 'dead' ? found : null;
        });
        return job.attempts.map(({ outcome, reason, status, replyExcerpt }) => ({
          outcome,
          reason,
          status,
          replyExcerpt,
        }));
      }),
    );
    expect(recorded[0]).toEqual([
      { outcome: 'failed', reason: 'blocked_address', status: null, replyExcerpt: '' },
    ]);
    expect(recorded[1]).toEqual(recorded[0]);
    const [open, closed] = rig.notified().map(({ detail }) => detail);
    expect(closed).toBe(open);
  });
});
