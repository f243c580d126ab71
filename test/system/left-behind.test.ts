// Tests what a start says about jobs and topics in a store or registry that is not in force.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { createTopic } from '../support/producing.ts';
import { lacks, owned, workerMariadb } from '../support/services.ts';
import { switchedDaemon } from '../support/switched-daemon.ts';
import { until } from '../support/until.ts';

const skips = (await lacks('redis')) || (await lacks('mysql'));

it.skipIf(skips)(
  'a start says what it leaves behind, wherever a user looks, until it is in force again',
  async () => {
    const redis = await owned('test', startRedis({ config: ['appendonly yes'] }));
    const mysql = await workerMariadb();
    const url = await mysql.createDatabase('left_behind');
    const daemon = switchedDaemon();
    const { configure, dq, dataDir } = daemon;
    const warnings = async () => (await daemon.now.api('GET', '/readyz')).body.warnings as string[];
    const files = () => readdirSync(dataDir).filter((name) => name.startsWith('registry.db'));

    configure({});
    expect(await dq('start', '-d')).toMatchObject({
      code: 0,
      stdout: expect.not.stringContaining('warning'),
    });
    await createTopic(daemon.now, { topic: 't', callbackUrl: 'http://127.0.0.1:9/' });
    for (const id of ['a', 'b'])
      expect((await daemon.now.push('t', '{}', { id, delay: '1h' })).status).toBe(201);
    await dq('schedule', 'add', 's', '--topic', 't', '--cron', '0 9 * * *');
    await dq('stop');
    expect(files()).toEqual(['registry.db']);

    configure({ redis: [`${redis.url}/1`], mysql: { url } });
    const ofJobs = expect.stringMatching(/^jobs\.db holds 2 jobs, .+ not deliver while `redis` is set; /);
    const ofRegistry = expect.stringMatching(
      /^registry\.db holds 1 topic, 0 tokens, 1 schedule, .+ not in force while `mysql\.url` is set; /,
    );
    const started = await dq('start', '-d');
    expect(started.stderr).toMatch(/^dq: warning: jobs\.db holds 2 jobs/m);
    expect(started.stderr).toMatch(/^dq: warning: registry\.db holds 1 topic/m);
    // The count creates no file.
    expect(files()).toEqual(['registry.db']);
    expect(await warnings()).toEqual(expect.arrayContaining([ofJobs, ofRegistry]));
    const { leftBehind } = (await daemon.now.api('GET', '/v1/summary')).body;
    expect(leftBehind).toEqual([
      { code: 'jobs_db', text: ofJobs, values: { jobs: 2 } },
      { code: 'registry_db', text: ofRegistry, values: { topics: 1, tokens: 0, schedules: 1 } },
    ]);
    const status = await dq('status');
    for (const line of [/^warning: jobs\.db holds 2 jobs/m, /^warning: registry\.db holds 1 topic/m])
      expect(status.stderr).toMatch(line);
    const doctor = await dq('doctor');
    for (const fact of ['jobs.db holds 2 jobs', 'registry.db holds 1 topic'])
      expect(doctor.stdout).toContain(fact);
    await until('the log names both', () => {
      const lines = daemon.now.log('error').map(({ message }) => String(message));
      return ['jobs.db holds 2', 'registry.db holds 1'].every((fact) =>
        lines.some((line) => line.includes(fact)),
      );
    });
    await until('the copy of the registry', () => existsSync(join(dataDir, 'registry-copy.json')));

    // The way back of the registry; the list of Redis servers is in MySQL.
    configure({});
    const restarted = await dq('restart');
    expect(restarted.stderr).toMatch(
      /^dq: warning: the registry was in MySQL 127\.0\.0\.1:\d+\/left_behind, .+ set it again/m,
    );
    expect(await warnings()).toHaveLength(1);

    // The way back of the jobs.
    configure({ redis: [`${redis.url}/2`] });
    await dq('restart');
    expect(await warnings()).toEqual(expect.arrayContaining([ofJobs]));
    configure({});
    await dq('restart');
    expect(await warnings()).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^the registry lists redis:\/\/127\.0\.0\.1:\d+\/2, whose jobs/),
      ]),
    );
  },
);
