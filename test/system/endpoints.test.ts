// Tests endpoints that need a whole daemon: its own port, an authority of the user.
import { createServer as createTlsServer } from 'node:https';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, expect, it } from 'vitest';
import { type Certificate, createAuthority, noCertificates } from '../support/certificates.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { listening } from '../support/listening.ts';
import { addTopic } from '../support/producing.ts';
import { startSink } from '../support/sink.ts';
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

const authority = noCertificates === null ? createAuthority(afterAll) : null;
const daemon = await startDaemon({
  ...{ scope: 'file', args: ['--notifiers', '1'] },
  ...(authority !== null && { env: { NODE_EXTRA_CA_CERTS: authority.path } }),
});

it('own port: never called, also a port chosen by the system', async () => {
  const sink = await startSink();
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
  const pid = daemon.pidOf('dq-notifier-0');
  process.kill(pid, 'SIGKILL');
  await until('its replacement', () =>
    daemon.workers().some((worker) => worker.title === 'dq-notifier-0' && worker.pid !== pid),
  );
  for (const id of ['b', 'c']) await daemon.push('self', '{}', { id });
  for (const id of ['b', 'c']) expect(await reasonOf(id)).toBe('blocked_address');
  expect(sink.arrivals).toEqual([]);
  expect((await daemon.api('GET', '/v1/stats')).body.states).toMatchObject({ delayed: 0, dead: 2 + tries });
});

async function startTls(
  certificate: Certificate,
): Promise<{ readonly url: string; readonly bodies: string[] }> {
  const bodies: string[] = [];
  const server = createTlsServer(certificate, (request, response) => {
    request.on('data', (data: Buffer) => bodies.push(data.toString()));
    request.on('end', () => response.end('{}'));
  });
  const port = await listening(server);
  return { url: `https://127.0.0.1:${port}/`, bodies };
}

it('NODE_EXTRA_CA_CERTS: calls only valid certificates of the authority', async ({ skip }) => {
  if (authority === null) return skip(noCertificates ?? '');
  const stranger = createAuthority();
  const here = 'IP:127.0.0.1';
  const servers = {
    good: await startTls(authority.sign(here)),
    expired: await startTls(authority.sign(here, -1)),
    otherhost: await startTls(authority.sign('DNS:other.example')),
    stranger: await startTls(stranger.sign(here)),
  };
  for (const [topic, { url }] of Object.entries(servers)) {
    await addTopic(daemon, topic, url, { maxAttempts: 1 });
    await daemon.push(topic, '{"secret":1}', { id: 'a' });
  }
  const ended = () => daemon.log('notify').filter(({ topic }) => String(topic) in servers);
  await until('all have ended', () => ended().length === 4);
  const seen = ended().map(({ topic, reason, detail }) => [topic, reason ?? 'delivered', detail]);
  expect(seen.sort()).toEqual([
    ['expired', 'tls', 'CERT_HAS_EXPIRED'],
    ['good', 'delivered', undefined],
    ['otherhost', 'tls', 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['stranger', 'tls', expect.stringMatching(/^UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)/)],
  ]);
  expect(Object.values(servers).map(({ bodies }) => bodies.length)).toEqual([1, 0, 0, 0]);
});
