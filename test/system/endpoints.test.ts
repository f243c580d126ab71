// Tests endpoints that need a whole daemon: its own port, an authority of the user, a receiver that calls the
// API.
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, it, onTestFinished } from 'vitest';
import { type Certificate, createAuthority, noCertificates } from '../support/certificates.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic, jobsLeft } from '../support/producing.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

/** Writes the registry directly: the API rejects such a URL. */
function setCallbackUrl(daemon: Daemon, topic: string, url: string): void {
  const registry = new DatabaseSync(join(daemon.dataDir, 'registry.db'));
  try {
    registry.exec('PRAGMA busy_timeout = 2000; BEGIN IMMEDIATE; UPDATE registry SET revision = revision + 1');
    registry
      .prepare(
        "UPDATE topic SET settings = json_set(settings, '$.callbackUrl', ?), revision = (SELECT revision FROM registry) WHERE name = ?",
      )
      .run(url, topic);
    registry.exec('COMMIT');
  } finally {
    registry.close();
  }
}

it('own port: never called, also a port chosen by the system', async () => {
  const sink = await startSink();
  const daemon = await startDaemon();
  await addTopic(daemon, 'victim', sink.url);
  await addTopic(daemon, 'self', 'http://127.0.0.1:9/', { maxAttempts: 1 });
  setCallbackUrl(daemon, 'self', `${daemon.url}/v1/topics/victim/jobs?delay=1h`);
  let tries = 0;
  const reasonOf = async (id: string) => {
    const dead = await until('its end', async () => {
      const { body } = await daemon.api('GET', `/v1/topics/self/jobs/${id}`);
      return body.state === 'dead' && body;
    });
    return dead.attempts[0].reason;
  };
  const first = await until('a notifier has read the change', async () => {
    tries += 1;
    const id = `a${tries}`;
    await daemon.push('self', '{}', { id });
    const reason = await reasonOf(id);
    return reason !== 'connect' && reason;
  });
  expect(first).toBe('blocked_address');
  for (const title of ['dq-notifier-0', 'dq-notifier-1']) {
    const pid = daemon.pidOf(title);
    process.kill(pid, 'SIGKILL');
    await until('its replacement', () =>
      daemon.workers().some((worker) => worker.title === title && worker.pid !== pid),
    );
  }
  for (const id of ['b', 'c', 'd', 'e']) await daemon.push('self', '{}', { id });
  for (const id of ['b', 'c', 'd', 'e']) expect(await reasonOf(id)).toBe('blocked_address');
  expect(sink.arrivals).toEqual([]);
  expect((await daemon.api('GET', '/v1/stats')).body.states).toMatchObject({ delayed: 0, dead: 4 + tries });
});

async function startTls(
  certificate: Certificate,
): Promise<{ readonly url: string; readonly bodies: string[] }> {
  const bodies: string[] = [];
  const server = createTlsServer(certificate, (request, response) => {
    request.on('data', (data: Buffer) => bodies.push(data.toString()));
    request.on('end', () => response.end('{}'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/`, bodies };
}

it('NODE_EXTRA_CA_CERTS: calls only valid certificates of the authority', async ({ skip }) => {
  if (noCertificates !== null) skip(noCertificates);
  const authority = createAuthority();
  const stranger = createAuthority();
  const here = 'IP:127.0.0.1';
  const servers = {
    good: await startTls(authority.sign(here)),
    expired: await startTls(authority.sign(here, -1)),
    otherhost: await startTls(authority.sign('DNS:other.example')),
    stranger: await startTls(stranger.sign(here)),
  };
  const daemon = await startDaemon({ env: { NODE_EXTRA_CA_CERTS: authority.path } });
  for (const [topic, { url }] of Object.entries(servers)) {
    await addTopic(daemon, topic, url, { maxAttempts: 1 });
    await daemon.push(topic, '{"secret":1}', { id: 'a' });
  }
  await until('all have ended', () => daemon.log('notify').length === 4);
  const seen = daemon
    .log('notify')
    .map(({ topic, reason, detail }) => [topic, reason ?? 'delivered', detail]);
  expect(seen.sort()).toEqual([
    ['expired', 'tls', 'CERT_HAS_EXPIRED'],
    ['good', 'delivered', undefined],
    ['otherhost', 'tls', 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['stranger', 'tls', expect.stringMatching(/^UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)/)],
  ]);
  expect(Object.values(servers).map(({ bodies }) => bodies.length)).toEqual([1, 0, 0, 0]);
});

it('callback: its receiver may replace or cancel the called job', async () => {
  const replies: Record<string, unknown> = {};
  const sink = await startSink(async (arrival, response) => {
    const first = replies[arrival.id] === undefined;
    if (first) {
      replies[arrival.id] = null;
      const reply =
        arrival.id === 'replaced'
          ? await daemon.push('t', '"new"', { id: 'replaced' })
          : await daemon.api('DELETE', `/v1/topics/t/jobs/${arrival.id}`);
      replies[arrival.id] = reply.body;
    }
    // This attempt fails: dq must not retry a replaced or cancelled job.
    if (first) response.writeHead(500).end('x');
    else await ok(arrival, response);
  });
  const daemon = await startDaemon({ config: { retry: { unit: '50ms' } } });
  await addTopic(daemon, 't', sink.url);
  for (const id of ['replaced', 'cancelled']) await daemon.push('t', '"old"', { id });
  await until('both calls have a reply', () => replies['replaced'] && replies['cancelled']);
  await until('nothing is left', async () => (await jobsLeft(daemon)) === 0);
  expect(replies).toMatchObject({
    replaced: { replaced: true, inFlight: true },
    cancelled: { cancelled: true, inFlight: true },
  });
  const arrived = sink.arrivals.map(({ id, attempt, body }) => `${id} ${attempt} ${body}`).sort();
  expect(arrived).toEqual(['cancelled 1 "old"', 'replaced 1 "new"', 'replaced 1 "old"']);
});
