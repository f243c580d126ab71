import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { parseMysqlUrl } from '../../src/core/url/server-url.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { type MysqlRegistry, mysqlRegistry } from '../../src/registry/sql/mysql/mysql-registry.ts';
import { testDirectory } from '../support/directory.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

/** How long a lead lasts in these tests. On a busy disk one call may take longer than leaderMs. */
const leadMs = 10 * notifierLimits.leaderMs;
const isMissing = await lacks('mysql');
// The server rejects changes that use no key.
const server = isMissing ? null : await owned('file', mariadb({ args: ['--sql-safe-updates=1'] }));
let made = 0;

async function openRow(): Promise<MysqlRegistry> {
  const database = `dq${made++}`;
  const parsed = parseMysqlUrl((await server?.createDatabase(database)) ?? '');
  if (!parsed.ok) throw new Error(parsed.message);
  const directory = testDirectory();
  const row = mysqlRegistry({
    server: parsed.value,
    keyPath: join(directory, 'secret.key'),
    snapshotPath: join(directory, 'registry-copy.json'),
    keepsSnapshot: false,
    migrates: true,
    warn: () => {},
  });
  onTestFinished(() => row.close());
  // A call waits 3 s at most; to make the tables can take longer on a busy machine.
  await until('the tables are made', () => row.leader());
  return row;
}

it.skipIf(isMissing)(
  'the row: a process frees only the time of its own instance, and only as its last',
  async () => {
    const row = await openRow();
    const [one, sibling, two] = [
      { instance: 1, incarnation: 1 },
      { instance: 1, incarnation: 2 },
      { instance: 2, incarnation: 1 },
    ];
    expect(await row.lead(one, leadMs)).toMatchObject({ instance: 1 });
    expect(await row.lead(sibling, leadMs)).toMatchObject({ instance: 1 });
    expect(await row.lead(two, leadMs)).toMatchObject({ instance: 1 });
    await row.giveUp(one);
    expect(await row.lead(two, leadMs)).toMatchObject({ instance: 1 });
    await row.giveUp(sibling);
    expect((await row.leader()).leftMs).toBeLessThanOrEqual(0);
    expect(await row.lead(two, leadMs)).toMatchObject({ instance: 2 });
    // A late repeat, also of an instance that leads again with a new process.
    await row.giveUp(sibling);
    expect((await row.leader()).leftMs).toBeGreaterThan(0);
    await row.giveUp(two);
    const later = { instance: 1, incarnation: 3 };
    await row.lead(later, leadMs);
    await row.giveUp(one);
    await row.giveUp(sibling);
    expect(await row.lead(two, leadMs)).toMatchObject({ instance: 1 });
  },
);

it.skipIf(isMissing)('the row: processes that died are removed by the next new one', async () => {
  const row = await openRow();
  for (let incarnation = 1; incarnation <= 3; incarnation += 1)
    await row.lead({ instance: 1, incarnation }, 1);
  await until('their time to end', async () => (await row.leader()).leftMs < 0);
  await row.lead({ instance: 1, incarnation: 4 }, leadMs);
  const kept = await server?.run('SELECT incarnation FROM leader_process', `dq${made - 1}`);
  expect(kept?.trim()).toBe('4');
});
