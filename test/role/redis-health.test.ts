import { describe, expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import type { Store, StoreHealth } from '../../src/ports/job-store.ts';
import { IncidentFiles } from '../../src/process/incident-files.ts';
import { createUpkeep } from '../../src/upkeep/upkeep.ts';
import { testDirectory } from '../support/directory.ts';
import { openedEmpty } from '../support/redis-store.ts';
import { lacks, owned } from '../support/services.ts';
import { type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts';
import { until } from '../support/until.ts';
import { type Rig, startRig } from './rig.ts';

const safe = ['appendonly yes', 'appendfsync everysec'];

async function redisStore(config: readonly string[] = safe) {
  const server = await owned('test', startRedis({ config }));
  const { under } = await openedEmpty(server);
  return { server, store: under.store, raw: under.raw };
}

interface Started {
  readonly dataDir: string;
  /** how long a failure lasts before it is reported, from the next check on */
  reportAfter(ms: number): void;
}

async function startUpkeep(rig: Rig, smtp: SmtpSink | null, store: Store, afterMs: number): Promise<Started> {
  const dataDir = testDirectory();
  const config = {
    ...{ dataDir, logDir: dataDir, 'smtp.url': smtp?.url ?? '' },
    ...{ 'smtp.from': smtp === null ? '' : 'dq@x.org', 'alerts.emails': ['ops@x.org'], 'alerts.window': 300 },
  };
  const context = rig.context({ config, store: { ...rig.store, admin: store.admin } });
  const health = { everyMs: 20, afterMs, lateMs: 60_000, crashWindowMs: 60_000 };
  const upkeep = await rig.run(createUpkeep(context, { alertPollMs: 20, deathPollMs: 20, health }));
  // Before its directory is removed.
  onTestFinished(() => upkeep.drain(2_000));
  return { dataDir, reportAfter: (ms) => void Object.assign(health, { afterMs: ms }) };
}

const lines = (rig: Rig, kind: 'error' | 'notice') =>
  rig.lines.filter((line) => line.kind === kind).map(({ message }) => message);
const subjects = (smtp: SmtpSink) => smtp.mails.map(({ parsed }) => parsed.subject);
/** Waits for a health for which the condition holds. */
const healthOnce = (store: Store, holds: (health: StoreHealth) => boolean) =>
  until('the store to report this health', async () => {
    const health = await store.admin.health();
    return holds(health) ? health : null;
  });

describe.skipIf(await lacks('redis'))('health of Redis', () => {
  it('a failure that lasts is mailed once, its end once', async () => {
    const [rig, smtp, { server, store }] = [await startRig(), await startSmtpSink(), await redisStore()];
    // Longer than the start of a Redis on a busy machine.
    const { dataDir, reportAfter } = await startUpkeep(rig, smtp, store, 60_000);
    const name = `redis://127.0.0.1:${server.port}`;
    await server.process.kill();
    await healthOnce(store, ({ ok }) => !ok);
    await server.process.start();
    await healthOnce(store, ({ ok }) => ok);
    expect(await new IncidentFiles(dataDir).list()).toEqual([]);
    await server.process.kill();
    await healthOnce(store, ({ servers }) => servers?.[0]?.trouble === 'cannot be reached');
    reportAfter(200);
    await until('the mail', () => smtp.mails.length === 1);
    expect(smtp.mails[0]?.to).toEqual(['ops@x.org']);
    await server.process.start();
    await until('the second mail', () => smtp.mails.length === 2);
    expect(subjects(smtp)).toEqual([
      `dq: Redis at ${name} cannot be reached`,
      `dq: Redis at ${name} works again`,
    ]);
    const kept = await until('both are marked', async () => {
      const all = await new IncidentFiles(dataDir).list();
      return all.every(({ alert }) => alert === 'sent') ? all : null;
    });
    expect(kept.map(({ kind, about, state }) => `${kind} ${about} ${state}`)).toEqual([
      `redis ${name} begun`,
      `redis ${name} over`,
    ]);
    // Each check found the same failure: one log line.
    expect(lines(rig, 'error').filter((line) => line.includes('cannot be'))).toEqual([
      `Redis at ${name} cannot be reached`,
    ]);
  });

  it('a shard removed while down is no longer reported', async () => {
    const rig = await startRig();
    const [{ store: gone, server }, { store: other }] = [await redisStore(), await redisStore()];
    let admin = gone.admin;
    const either: Store = {
      ...rig.store,
      admin: new Proxy(gone.admin, { get: (_, method) => Reflect.get(admin, method) }),
    };
    await startUpkeep(rig, null, either, 0);
    await server.process.kill();
    const name = `redis://127.0.0.1:${server.port}`;
    // With the reason found first: no answer, or unreachable.
    await until('it is reported', () =>
      lines(rig, 'error').some((line) => line.startsWith(`Redis at ${name} `)),
    );
    admin = other.admin;
    await until('it is over', () => lines(rig, 'notice').includes(`Redis at ${name} is no longer in use`));
  });

  it.each([
    [
      'full',
      ['CONFIG', 'SET', 'maxmemory', '1'],
      ['CONFIG', 'SET', 'maxmemory', '0'],
      'is full and rejects pushes; deliveries continue',
    ],
    [
      'following another',
      ['REPLICAOF', '127.0.0.1', '1'],
      ['REPLICAOF', 'NO', 'ONE'],
      'is read-only: it follows another server',
    ],
    [
      'without replicas',
      ['CONFIG', 'SET', 'min-replicas-to-write', '1'],
      ['CONFIG', 'SET', 'min-replicas-to-write', '0'],
      'has too few replicas to accept writes',
    ],
  ])('%s is not well, and says why', async (_, break_, mend, trouble) => {
    const { server, store } = await redisStore();
    await server.ask(...break_);
    const name = `redis://127.0.0.1:${server.port}`;
    const health = await healthOnce(store, ({ servers }) => servers?.[0]?.trouble === trouble);
    expect(health).toMatchObject({ ok: false, warnings: [`Redis at ${name} ${trouble}`] });
    await server.ask(...mend);
    await healthOnce(store, ({ ok }) => ok);
  });

  it('a rejected password is reported as such, and never shown', async () => {
    const { store, raw } = await redisStore([...safe, 'requirepass s3cret']);
    await raw.config('SET', 'requirepass', 'an0ther');
    await raw.call('CLIENT', 'KILL', 'TYPE', 'normal');
    const { warnings } = await healthOnce(
      store,
      ({ servers }) => servers?.[0]?.trouble?.startsWith('rejects') === true,
    );
    expect(warnings.join()).toMatch(/^Redis at redis:\/\/127\.0\.0\.1:\d+ rejects the user or password/);
    await raw.config('SET', 'requirepass', 's3cret');
    await healthOnce(store, ({ ok }) => ok);
  });

  it('a dangerous setting is logged once, and its end once', async () => {
    const [rig, { server, store }] = [await startRig(), await redisStore(['save ""', 'appendonly no'])];
    await startUpkeep(rig, null, store, 0);
    const memoryOnly = 'Redis keeps its data only in memory; set appendonly yes';
    await until('the first warning', () => lines(rig, 'error').includes(`warning: ${memoryOnly}`));
    await server.ask('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    await until('the second', () => lines(rig, 'error').some((line) => line.includes('set noeviction')));
    expect((await store.admin.health()).warnings).toHaveLength(2);
    await server.ask('CONFIG', 'SET', 'appendonly', 'yes');
    await server.ask('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    await until(
      'both are over',
      () => lines(rig, 'notice').filter((line) => line.startsWith('warning is over: ')).length === 2,
    );
    expect(lines(rig, 'error')).toHaveLength(2);
    expect(await store.admin.health()).toMatchObject({ ok: true, warnings: [] });
  });
});
