// Tests more topics than one frame of the store's socket holds: they are in force after a start, a reload and
// a restart, as are later changes. A reload whose workers cannot read them changes nothing.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { topicDefaults } from '../../src/core/topic/topic.ts';
import { SecretCipher } from '../../src/registry/sql/keys/encryption.ts';
import { readKeyFile } from '../../src/registry/sql/keys/registry-key.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { toColumns } from '../../src/registry/sql/tables/topic-row.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { reload } from '../support/reloading.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const bytes = 16_000;
const count = Math.ceil(limits.frameBytesMax / bytes) + 20;

/** A data directory with topics written into the registry: creating them through the API would take
 *  minutes. */
async function directoryWith(url: string): Promise<string> {
  const directory = testDirectory();
  const dataDir = join(directory, 'data');
  mkdirSync(dataDir);
  const path = join(dataDir, 'registry.db');
  await (await openRegistryDb(path)).close();
  const key = readKeyFile(join(dataDir, 'secret.key'));
  if (key === null) throw new Error('there is no key');
  const cipher = new SecretCipher(key);
  const headers = Object.fromEntries(
    Array.from({ length: 16 }, (_, i) => [`x-${i}`, 'v'.repeat(bytes / 16)]),
  );
  const db = openDatabase(path);
  const insert = db.prepare("INSERT INTO topic VALUES (?, ?, ?, ?, ?, 0, 0, '', '')");
  db.exec('BEGIN');
  for (let i = 1; i <= count; i += 1) {
    const secrets = [{ secret: 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw', untilAt: null }];
    const draft = {
      ...topicDefaults,
      // The receiver accepts at most 16 KiB of headers.
      headers: i === 1 || i === count ? { 'x-0': 'v' } : headers,
      callbackUrl: url,
      topic: `t${i}`,
      state: 'active',
      secrets,
    } as const;
    const { state, settings, secrets: sealed } = toColumns(draft, cipher);
    insert.run(draft.topic, state, settings, sealed, i);
  }
  db.exec(`UPDATE registry SET revision = ${count}; COMMIT`);
  db.close();
  return directory;
}

it('many topics: in force after a reload and a restart, with later changes', async () => {
  const sink = await startSink();
  const directory = await directoryWith(new URL('/before', sink.url).href);
  const daemon = await startDaemon({ directory });
  const last = `t${count}`;
  const isInForce = async (daemon: Daemon, topic: string, path: string) => {
    const { status, body } = await daemon.push(topic, '{}');
    expect([topic, status]).toEqual([topic, 201]);
    return until(`the job of ${topic} at ${path}`, () =>
      sink.arrivals.find((one) => one.id === body.id && one.path === path),
    );
  };
  const { headers } = await isInForce(daemon, last, '/before');
  expect(headers['x-0']).toBe('v');
  const { code, stderr } = await reload(daemon);
  expect([code, stderr]).toEqual([0, expect.any(String)]);
  const change = (on: Daemon, path: string) =>
    on.api('PATCH', `/v1/topics/${last}`, { callbackUrl: new URL(path, sink.url).href });
  expect((await change(daemon, '/reloaded')).status).toBe(200);
  await isInForce(daemon, 't1', '/before');
  await isInForce(daemon, last, '/reloaded');

  // New workers cannot read more than the dq-store under them can: the older ones continue.
  const db = openDatabase(join(daemon.dataDir, 'registry.db'), { waitMs: 5_000 });
  db.exec('ALTER TABLE topic RENAME TO topic_elsewhere');
  const rejected = await reload(daemon);
  expect(rejected).toMatchObject({ code: 1, stderr: expect.stringContaining('cannot read the topics') });
  db.exec('ALTER TABLE topic_elsewhere RENAME TO topic');
  db.close();
  await isInForce(daemon, last, '/reloaded');

  await daemon.stop();
  const restarted = await startDaemon({ directory });
  await isInForce(restarted, last, '/reloaded');
  expect((await change(restarted, '/restarted')).status).toBe(200);
  await isInForce(restarted, last, '/restarted');
});
