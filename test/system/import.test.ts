// Tests dq import with real servers that hold what the other systems write.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { encode } from '@msgpack/msgpack';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openPhp } from '../../src/cli/import/php-delayqueue.ts';
import type { Found } from '../../src/cli/import/source.ts';
import { SourceMysql } from '../../src/cli/import/source-servers.ts';
import { environment, launcher, type RunningDaemon } from '../support/daemon.ts';
import { type PhpDatabase, type PhpJob, PhpQueue, phpDatabase } from '../support/php-queue.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, workerMariadb, workerRedis } from '../support/services.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { startSink } from '../support/sink.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

const callbackUrl = 'http://127.0.0.1:9/close';
const inAnHour = () => Math.floor(Date.now() / 1_000) + 3_600;
const missing = (await lacks('mysql')) || (await lacks('redis'));

describe.skipIf(missing)('dq import', async () => {
  const server = await workerMariadb();
  const redis = await workerRedis();
  const daemon = await sharedDaemon();
  const place = `127.0.0.1:${redis.port}`;

  interface Setup {
    readonly directory: string;
    readonly php: PhpQueue;
    readonly database: PhpDatabase;
    run(...args: string[]): Promise<Imported>;
  }
  interface Imported {
    readonly code: number | null;
    readonly stderr: string;
    // biome-ignore lint/suspicious/noExplicitAny: what a report holds is what the test asserts
    readonly report: any;
  }
  const importFrom = async (directory: string, args: readonly string[], on = daemon): Promise<Imported> => {
    const { code, stdout, stderr } = await runDq(['import', ...args, '-y', '--json'], {
      cwd: directory,
      env: { DQ_DATA_DIR: on.dataDir },
    });
    return { code, stderr, report: stdout === '' ? null : JSON.parse(stdout) };
  };
  const emptyDirectory = () => {
    const directory = temporaryDirectory();
    onTestFinished(() => directory.remove());
    return directory.path;
  };
  const setUp = async (): Promise<Setup> => {
    const php = new PhpQueue(redis);
    await php.raw.flushall();
    const database = await phpDatabase(server);
    await database.run(`INSERT INTO dq_redis (t_name, t_content) VALUES ('one', '${place}:,127.0.0.1:1:x')`);
    const directory = emptyDirectory();
    const source = ['php-delayqueue', '--mysql', database.url, '--timezone', 'Asia/Shanghai'];
    return { directory, php, database, run: (...args) => importFrom(directory, [...source, ...args]) };
  };
  let names = 0;
  const newTopic = async (settings: object = {}, on: RunningDaemon = daemon) => {
    const topic = `import${++names}`;
    await on.api('POST', '/v1/topics', { topic, callbackUrl, format: 'form', ...settings });
    return topic;
  };
  const jobIn = async (topic: string, id: string, on = daemon) =>
    (await on.api('GET', `/v1/topics/${topic}/jobs/${encodeURIComponent(id)}`)).body;
  const many = (topic: string, n: number, score: number): PhpJob[] =>
    Array.from({ length: n }, (_, id) => ({ topic, id: String(id), body: `{"n":${id}}`, score }));
  const idsIn = async (topic: string): Promise<string[]> => {
    const ids: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const after: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const { body } = await daemon.api('GET', `/v1/jobs?topic=${topic}&limit=100${after}`);
      ids.push(...body.items.map(({ id }: { id: string }) => id));
      cursor = body.nextCursor;
    }
    return ids;
  };
  const pushedTo = async (topic: string, on = daemon): Promise<number> =>
    (await on.api('GET', `/v1/topics/${topic}/stats`)).body.total.pushed;

  it('topics of php-delayqueue: each column', async () => {
    const { database, run } = await setUp();
    const plain = `plain${++names}`;
    await database.topic({ topic: plain, callback: 'http://old.example/', delay: 1 });
    await database.topic({
      ...{ topic: plain, t_name: '关单', createor: 'li', callback: callbackUrl, method: 'PoSt', delay: 600 },
      ...{
        timeout: 0,
        email: 'a@example.com, b@example.com,',
        re_notify_flag: '{res.code}!=200',
        priority: 1,
      },
    });
    await database.topic({ topic: '会员', t_name: 'vip', callback: callbackUrl, method: 'PUT', timeout: 20 });
    await database.topic({ topic: `${plain}.off`, callback: callbackUrl, status: 0, priority: 3 });
    await database.topic({
      topic: `${plain}.eval`,
      callback: callbackUrl,
      re_notify_flag: 'strlen({res.a})',
    });
    await database.topic({ topic: `${plain}.bad`, callback: 'ftp://x/', email: 'not a mail' });

    const dry = await run('--dry-run', '--only', 'topics');
    expect(dry.code).toBe(5);
    const outcomes = ({ report }: Imported) => report.topics.map((one: { outcome: string }) => one.outcome);
    expect(outcomes(dry)).toEqual(['new', 'new', 'new', 'new', 'rejected']);
    expect((await daemon.api('GET', `/v1/topics/${plain}`)).status).toBe(404);

    const first = await run('--only', 'topics', '--status', 'any');
    expect(first.code).toBe(5);
    expect(outcomes(first)).toEqual(['new', 'new', 'new', 'new', 'rejected']);
    expect(first.report.topics[4].reason).toMatch(/callbackUrl: .*http.*alertEmails/);
    expect(first.report.topics[3].notes[0]).toContain('strlen({res.a})');
    const read = async (name: string) => (await daemon.api('GET', `/v1/topics/${name}`)).body;
    expect(await read(plain)).toMatchObject({
      ...{
        title: '关单',
        owner: 'li',
        callbackUrl,
        method: 'POST',
        format: 'form',
        delay: '10m',
        timeout: '1m',
      },
      ...{ alertEmails: ['a@example.com', 'b@example.com'], retryIf: '{res.code}!=200', priority: 'high' },
      ...{ maxAttempts: 12, backoff: '2n+1', okStatus: ['2xx', '4xx', '5xx'], state: 'active' },
    });
    expect(await read('x__e4_bc_9a_e5_91_98')).toMatchObject({
      ...{ title: 'vip (会员)', method: 'GET', timeout: '100ms', retryIf: '', priority: 'normal' },
    });
    expect(await read(`${plain}.off`)).toMatchObject({ state: 'offline', priority: 'low', delay: '0s' });
    expect(await read(`${plain}.eval`)).toMatchObject({ state: 'offline', retryIf: '' });

    expect(outcomes(await run('--only', 'topics', '--status', 'any'))).toEqual([
      ...Array(4).fill('same'),
      'rejected',
    ]);
    await daemon.api('PATCH', `/v1/topics/${plain}`, { delay: '1m', timeout: '2s' });
    const other = await run('--only', 'topics', '--status', 'any');
    expect(other.report.topics[0]).toMatchObject({ outcome: 'different', fields: ['delay', 'timeout'] });
    expect((await read(plain)).delay).toBe('1m');
    const replaced = await run('--only', 'topics', '--status', 'any', '--replace');
    expect(replaced.report.topics[0]).toMatchObject({ outcome: 'replaced' });
    expect((await read(plain)).delay).toBe('10m');
  });

  it('alert settings: a piece of dq.yaml without the password', async () => {
    const { database, run } = await setUp();
    await database.run(
      `INSERT INTO dq_alert (host, port, user, pwd, ext) VALUES ('mail.example', 465, 'a@b.c', 'canary', '{"redis":"x@y.z, v@w.u"}')`,
    );
    const { report } = await run('--only', 'topics');
    expect(report.settings).toContain('smtps://a%40b.c:PASSWORD@mail.example:465');
    expect(report.settings).toMatch(/emails:\n\s+- x@y.z\n\s+- v@w.u/);
    expect(report.settings).not.toContain('canary');
  });

  it('jobs of php-delayqueue: each key', async () => {
    const { php, database, directory, run } = await setUp();
    const topic = await newTopic({ backoff: ['1m'] });
    const off = `off${++names}`;
    await database.topic({ topic: off, callback: callbackUrl, status: 0 });
    await run('--only', 'topics');
    const score = inAnHour();
    const own = '"notify_time":"2030-01-01 08:00:00","dq_set_time":"2024-05-06 07:08:09"';
    const big = 'x'.repeat(300 * 1024);
    await php.add([
      {
        topic,
        id: 'delayed',
        body: `{"n":12345678901234567890,"a":"\\u4e2d" ,${own},"exp_notify_nums":2}`,
        score,
      },
      { topic, id: 'a:b', body: `{${own}}`, score: 1 },
      ...['high', 'normal', 'low', 'none'].map((id) => ({ topic, id, body: `{"id":"${id}"}`, score })),
      { topic, id: 'lost', body: `{"x":1,${own}}`, score },
      { topic, id: 'deleted', body: '{}', score },
      { topic, id: 'gone', body: '{}', score },
      { topic, id: 'big', body: `{"x":"${big}"}`, score },
      { topic: 'nobody', id: '1', body: '{}', score },
      { topic, id: 'list', body: '[1]', score },
      { topic, id: 'line\nbreak', body: '{}', score },
      { topic: off, id: '1', body: '{}', score },
    ]);
    const bucket = php.bucket(topic);
    for (const [id, list] of [
      ...[
        ['high', 'dq_1ready_queue'],
        ['normal', 'dq_2ready_queue'],
        ['low', 'dq_3ready_queue'],
      ],
      ...[
        ['none', 'dq_ready_queue'],
        ['gone', 'dq_2ready_queue'],
      ],
    ] as [string, string][]) {
      await php.raw.zrem(bucket, `${topic}:${id}`);
      await php.raw.rpush(list, `${topic}:${id}`);
    }
    await php.raw.zrem(bucket, `${topic}:lost`);
    await php.raw.hdel('dq_job_info', `${topic}:deleted`, `${topic}:gone`);
    await php.raw.set(`lock:${topic}:high`, 1);
    const dump = () =>
      Promise.all(['dq_job_info', bucket, 'dq_2ready_queue'].map((key) => php.raw.dump(key)));
    const before = await dump();

    const seen = {
      ...{
        due: 4,
        delayed: 3,
        lost: 1,
        deleted: 2,
        tooLarge: 1,
        withoutTopic: 1,
        unreadable: 1,
        rejected: 1,
      },
      ...{ kept: 0, before: 0, unknown: 0, removed: 0, changed: 0 },
    };
    const dry = await run('--dry-run', '--only', 'jobs');
    expect(dry).toMatchObject({ code: 5, report: { dryRun: true, jobs: { ...seen, pushed: 0 } } });
    expect(existsSync(join(directory, 'dq-import-php-delayqueue.state'))).toBe(false);
    expect((await daemon.api('GET', `/v1/jobs?topic=${topic}`)).body.items).toEqual([]);

    const first = await run('--only', 'jobs');
    expect(first).toMatchObject({ code: 5, report: { jobs: { ...seen, pushed: 8 } } });
    expect(first.report.jobs.problems).toHaveLength(4);
    expect(await dump()).toEqual(before);
    expect(await jobIn(topic, 'delayed')).toMatchObject({
      ...{ state: 'delayed', dueAt: new Date(score * 1_000).toISOString(), attempt: 2 },
      ...{ createdAt: '2024-05-05T23:08:09.000Z', body: '{"n":12345678901234567890,"a":"\\u4e2d"}' },
    });
    expect(await jobIn(topic, 'lost')).toMatchObject({ dueAt: '2030-01-01T00:00:00.000Z', body: '{"x":1}' });
    // Due at once; a failed call may have moved it by a minute.
    expect(Date.parse((await jobIn(topic, 'a:b')).dueAt)).toBeLessThan(Date.now() + 600_000);
    expect(await jobIn(off, '1')).toMatchObject({ state: 'delayed' });
    expect((await daemon.api('GET', `/v1/topics/${off}`)).body.state).toBe('offline');
    await until('the counter', async () => (await pushedTo(topic)) === 7);

    const second = await run('--only', 'jobs');
    expect(second.report.jobs).toMatchObject({ ...seen, before: 8, pushed: 0 });
    expect(await pushedTo(topic)).toBe(7);
  });

  it('attempts, waits and deadline of the flags are those of each job; a wrong flag imports nothing', async () => {
    const { php, run } = await setUp();
    const topic = await newTopic();
    await daemon.api('POST', `/v1/topics/${topic}/pause`);
    const score = inAnHour();
    await php.add([...many(topic, 1, score), { topic, id: 'due', body: '{}', score: 1 }]);
    for (const [flag, value] of [
      ['--max-attempts', '0'],
      ['--backoff', '15s,soon'],
      ['--deadline', 'tomorrow'],
    ] as const)
      expect(await run('--only', 'jobs', flag, value)).toMatchObject({
        ...{ code: 2, stderr: expect.stringContaining(flag) },
      });
    const before = Date.now();
    const flags = ['--max-attempts', '3', '--backoff', '15s,3m', '--deadline', '2h'];
    expect(await run('--only', 'jobs', ...flags)).toMatchObject({ code: 0, report: { jobs: { pushed: 2 } } });
    expect(await jobIn(topic, '0')).toMatchObject({
      ...{ maxAttempts: 3, backoff: ['15s', '3m'] },
      deadline: new Date((score + 7_200) * 1_000).toISOString(),
    });
    const due = await jobIn(topic, 'due');
    expect(due).toMatchObject({ maxAttempts: 3, backoff: ['15s', '3m'] });
    expect(Date.parse(due.deadline)).toBeGreaterThanOrEqual(before + 7_200_000);
    await daemon.api('DELETE', `/v1/topics/${topic}?jobs=purge`);
  });

  it('1,100 jobs without a state file: dq keeps the live ones', async () => {
    const { php, run } = await setUp();
    const topic = await newTopic();
    await php.add(many(topic, 1_100, inAnHour()));
    expect(await run('--state', 'one')).toMatchObject({ code: 0, report: { jobs: { pushed: 1_100 } } });
    expect(await run('--state', 'two')).toMatchObject({
      code: 0,
      report: { jobs: { pushed: 0, kept: 1_100 } },
    });
  });

  it('a batch without an end: jobs that dq knows are skipped, also ended ones', async () => {
    const sink = await startSink();
    const { directory, php, run } = await setUp();
    const topic = await newTopic({ callbackUrl: sink.url });
    await php.add([...many(topic, 2, 1), { topic, id: 'later', body: '{}', score: inAnHour() }]);
    expect((await run('--state', 's')).report.jobs.pushed).toBe(3);
    await until('both are delivered', () => sink.arrivals.length === 2);
    await until(
      'both have ended',
      async () => (await jobIn(topic, '1')).endedAt && (await jobIn(topic, '0')).endedAt,
    );
    const file = join(directory, 's');
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    expect(lines).toHaveLength(4);
    // The kill came after the push, in the middle of the line that ends the batch.
    writeFileSync(file, `${lines.slice(0, 3).join('\n')}\n${lines[3]?.slice(0, 9)}`);
    const again = await run('--state', 's');
    expect(again).toMatchObject({ code: 0, report: { jobs: { pushed: 0, kept: 0, before: 3 } } });
    expect(await run('--state', 's')).toMatchObject({ report: { jobs: { before: 3, pushed: 0 } } });
    await daemon.api('DELETE', `/v1/topics/${topic}/jobs/later`);
    expect(sink.arrivals).toHaveLength(2);
  });

  it('kill -9 in the middle of 4,000 jobs: the second run pushes the others, each job once', {
    timeout: 300_000,
  }, async () => {
    const { php, database, directory, run } = await setUp();
    const topic = await newTopic();
    await php.add(many(topic, 4_000, inAnHour()));
    const source = ['php-delayqueue', '--mysql', database.url, '--only', 'jobs', '--state', 's'];
    const child = spawn(process.execPath, [launcher, 'import', ...source, '-y'], {
      cwd: directory,
      env: environment({ DQ_DATA_DIR: daemon.dataDir }),
      stdio: 'ignore',
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const exited = once(child, 'exit');
    const state = join(directory, 's');
    const ended = () => (existsSync(state) ? readFileSync(state, 'utf8').split('\n{"left"').length - 1 : 0);
    await until(
      'some batches are done',
      () => {
        // Stopped before the look: no further batch ends between the look and the stop.
        child.kill('SIGSTOP');
        if (ended() > 1) return true;
        child.kill('SIGCONT');
        return false;
      },
      { everyMs: 1 },
    );
    const second = await run('--only', 'jobs', '--state', 's');
    expect(second.code).toBe(1);
    expect(second.stderr).toMatch(new RegExp(`process ${child.pid} on .* uses s; wait for its end`));
    child.kill('SIGKILL');
    expect(await exited).toEqual([null, 'SIGKILL']);
    expect(ended()).toBeLessThan(4);
    const { code, report } = await run('--only', 'jobs', '--state', 's');
    expect({ code, ...report.jobs }).toMatchObject({ code: 0, kept: 0, unknown: 0 });
    expect(report.jobs.before + report.jobs.pushed).toBe(4_000);
    await until('the counters', async () => (await pushedTo(topic)) === 4_000);
  });

  it('--move beside a running php-delayqueue: each job is called there or is in dq', async () => {
    const { php, run } = await setUp();
    const topic = await newTopic();
    const now = Math.floor(Date.now() / 1_000);
    await php.add(many(topic, 1_200, now + 3_600));
    const called: string[] = [];
    let twice = 0;
    let added = 1_200;
    let isWriting = true;
    const writer = (async () => {
      while (isWriting && added < 2_500) {
        // Half of them are due at once.
        const score = added % 2 === 0 ? now - 5 : now + 3_600;
        await php.add([{ topic, id: String(added), body: `{"n":${added}}`, score }]);
        added += 1;
      }
    })();
    const runner = (async () => {
      while (isWriting) {
        await php.timer(php.bucket(topic), now);
        const taken = await php.consume();
        if (taken === null) continue;
        called.push(taken.member.slice(topic.length + 1));
        if (!taken.deleted) twice += 1;
      }
    })();
    const moves = [await run('--only', 'jobs', '--move', '-y'), await run('--only', 'jobs', '--move')];
    isWriting = false;
    await Promise.all([writer, runner]);
    moves.push(await run('--only', 'jobs', '--move'));
    expect(moves.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(await php.raw.hlen('dq_job_info')).toBe(0);
    expect(await php.raw.zcard(php.bucket(topic))).toBe(0);
    const sum = (name: string) => moves.reduce((n, { report }) => n + report.jobs[name], 0);
    expect(called.length).toBeGreaterThan(0);
    // Both have what went there between the read and the removal, and what was removed during its call. A
    // scan of Redis may list a job twice: the second one was pushed before, and is gone at its removal.
    const inDq = sum('pushed') + sum('before') + sum('kept');
    expect(called.length + inDq).toBe(added + sum('changed') + twice);
    await until('the counter', async () => (await pushedTo(topic)) === sum('pushed'));
    const everywhere = new Set([...called, ...(await idsIn(topic))]);
    expect(everywhere.size).toBe(added);
  });

  it('--move: a job that changes between the read and the removal stays there', async () => {
    const { php, database } = await setUp();
    await php.add([{ topic: 't', id: '1', body: '{"v":1}', score: inAnHour() }]);
    const options = { mysql: database.url, redis: [], prefix: 'dq_', anyStatus: false, timezone: 'UTC' };
    const source = await openPhp(options);
    onTestFinished(() => source.close());
    const found: Found[] = [];
    for await (const page of source.jobs()) found.push(...page);
    const jobs = found.flatMap((one) => (one.kind === 'job' ? [one.job] : []));
    expect(jobs).toHaveLength(1);
    await php.add([{ topic: 't', id: '1', body: '{"v":2}', score: inAnHour() }]);
    expect(await source.remove?.(jobs)).toBe(0);
    expect(await php.raw.hget('dq_job_info', 't:1')).toBe('{"v":2}');
    expect(await php.raw.zcard(php.bucket('t'))).toBe(1);
  });

  it('--move: a newer push of an id replaces the imported one; a job of dq stays', async () => {
    const { php, run } = await setUp();
    const topic = await newTopic();
    const score = inAnHour();
    await php.add([{ topic, id: '1', body: '{"v":1}', score }]);
    await run('--only', 'jobs');
    await php.add([{ topic, id: '1', body: '{"v":2}', score }]);
    expect(await run('--only', 'jobs', '--move')).toMatchObject({
      code: 0,
      report: { jobs: { pushed: 1, removed: 1 } },
    });
    expect((await jobIn(topic, '1')).body).toBe('{"v":2}');
    // dq has its own job of this id: neither of the two is lost.
    await php.add([{ topic, id: '2', body: '{"v":1}', score }]);
    await daemon.push(topic, '{"v":9}', { id: '2', delay: 3_600_000 });
    for (const _ of [1, 2])
      expect(await run('--only', 'jobs', '--move')).toMatchObject({
        code: 5,
        report: { jobs: { kept: 1, removed: 0 } },
      });
    expect(await php.raw.hlen('dq_job_info')).toBe(1);
  });

  it('one id on two servers: the newer push is in dq, and a second run pushes nothing', async () => {
    const { php, run } = await setUp();
    const topic = await newTopic();
    const servers = [0, 1].flatMap((database) => ['--redis', `${redis.url}/${database}`]);
    for (const v of [0, 1]) {
      await php.raw.select(v);
      const body = `{"v":${v},"dq_set_time":"2024-05-06 07:08:0${v}"}`;
      await php.add([{ topic, id: '1', body, score: inAnHour() }]);
    }
    expect((await run('--only', 'jobs', ...servers)).report.jobs).toMatchObject({ pushed: 2 });
    expect((await run('--only', 'jobs', ...servers)).report.jobs).toMatchObject({ pushed: 0, before: 2 });
    expect((await jobIn(topic, '1')).body).toBe('{"v":1}');
  });

  it('ouqiang: buckets, queues, msgpack', async () => {
    const { php, directory } = await setUp();
    const topic = `import${++names}`;
    await daemon.api('POST', '/v1/topics', { topic, delivery: 'pull', lease: '5m' });
    const called = await newTopic({ format: 'raw' });
    const score = inAnHour();
    await php.raw.select(1);
    const put = (id: string, body: unknown, of = topic) =>
      php.raw.set(id, Buffer.from(encode({ 1: of, 2: id, 3: score, 4: 70, 5: body })));
    await put('waits', '{"a":1}\n');
    await put('called', '{}', called);
    await put('ready', 'some text');
    await put('bytes', new Uint8Array([0xff]));
    await php.raw.set('strange', 'no msgpack');
    await php.raw.zadd('dq_bucket_1', score, 'waits', score, 'called', score, 'deleted');
    await php.raw.zadd('dq_bucket_2', score, 'bytes', score, 'strange');
    await php.raw.rpush(`dq_queue_${topic}`, 'ready', 'gone');
    const found = { delayed: 2, due: 1, deleted: 2, unreadable: 2 };
    const source = ['ouqiang', '--redis', place];
    expect(await importFrom(directory, [...source, '--dry-run'])).toMatchObject({ report: { jobs: found } });
    const { code, report } = await importFrom(directory, source);
    expect({ code, ...report.jobs }).toMatchObject({ code: 5, ...found, pushed: 3 });
    expect(await jobIn(topic, 'waits')).toMatchObject({
      ...{ body: '{"a":1}', contentType: 'application/json', dueAt: new Date(score * 1_000).toISOString() },
    });
    expect(await jobIn(topic, 'ready')).toMatchObject({ contentType: 'text/plain; charset=utf-8' });
    // Its ttr is its lease.
    const now = Date.now();
    const [pulled] = (await daemon.api('POST', `/v1/topics/${topic}/pull`)).body.items;
    expect(pulled.id).toBe('ready');
    expect(Math.round((Date.parse(pulled.leaseUntil) - now) / 10_000)).toBe(7);
    expect(await importFrom(directory, source)).toMatchObject({ report: { jobs: { pushed: 0, before: 3 } } });
  });

  it.each([
    ['sdmq', 't_delay_queue_job', 'io.sdmq:dq:pools'],
    ['mykit', 'mykit_delay_queue_job', 'io.mykit.delay:mykit-delay:pools'],
  ])('%s: table and pool', async (name, table, pool) => {
    const { php, database, directory } = await setUp();
    const topic = await newTopic({ format: 'raw' });
    const created = Date.now();
    await database.run(`CREATE TABLE ${table} (id varchar(128) NOT NULL, bizkey varchar(128), topic varchar(128),
      subtopic varchar(250), delay bigint(20), create_time bigint(20), body text, status int(11), ttl int(11),
      update_time datetime(3), PRIMARY KEY (id)) DEFAULT CHARSET=utf8`);
    const rows = ['wait 0', 'both 1', 'ready 2', 'done 3', 'deleted 4', 'again 5'].map((row) =>
      row.split(' '),
    );
    for (const [id, status] of rows)
      await database.run(`INSERT INTO ${table} (id, topic, delay, create_time, body, status)
        VALUES ('${id}', '${topic}', 3600000, ${created}, 'from 中 ${id}', ${status})`);
    const pooled = (id: string, more: object) =>
      php.raw.hset(pool, id, JSON.stringify({ topic, id, delay: 7_200_000, createTime: created, ...more }));
    await pooled('both', { body: '{"in":"redis"}', status: 1 });
    await pooled('only', { body: 'x', status: 1 });
    await pooled('ended', { body: 'x', status: 3 });
    const source = [name, '--mysql', database.url, '--redis', place];
    const { code, report } = await importFrom(directory, source);
    expect({ code, ...report.jobs }).toMatchObject({ code: 0, pushed: 5, delayed: 5 });
    expect(await jobIn(topic, 'both')).toMatchObject({
      ...{ body: '{"in":"redis"}', dueAt: new Date(created + 7_200_000).toISOString() },
      createdAt: new Date(created).toISOString(),
    });
    expect(await jobIn(topic, 'wait')).toMatchObject({ body: 'from 中 wait' });
    expect((await importFrom(directory, source)).report.jobs).toMatchObject({ pushed: 0, before: 5 });
  });

  it('redis-delay-queue: table, set and lists', async () => {
    const { php, directory } = await setUp();
    const topic = await newTopic({ format: 'raw' });
    const due = Date.now() + 3_600_000;
    const key = (name: string) => `{shop}:${name}`;
    const args = (id: string) => `{"id":"${id}","retryCount":0,"reentry":0}`;
    for (const id of ['set', 'list', 'alone'])
      await php.raw.hset(key('Redis_Delay_Table'), `${topic}:${id}`, args(id));
    await php.raw.hset(key('Redis_Delay_Table'), `${topic}:java`, Buffer.from([0xac, 0xed, 0, 5]));
    await php.raw.zadd(key('RD_ZSET_BUCKET:'), due, `"${topic}:set"`, due, `${topic}:deleted`);
    await php.raw.rpush(key(`RD_LIST_TOPIC:${topic}`), `"${topic}:list"`);
    const { code, report } = await importFrom(directory, [
      'redis-delay-queue',
      '--redis',
      redis.url,
      '--project',
      'shop',
    ]);
    expect({ code, ...report.jobs }).toMatchObject({
      ...{ code: 5, pushed: 3, delayed: 1, due: 1, lost: 1, deleted: 1, unreadable: 1 },
    });
    expect(await jobIn(topic, 'set')).toMatchObject({
      body: args('set'),
      dueAt: new Date(due).toISOString(),
    });
  });

  it('MySQL: a connection that ends between two reads is opened again', async () => {
    const { database } = await setUp();
    const source = new SourceMysql(database.url);
    onTestFinished(() => source.close());
    const idOf = async () => Number((await source.rows('SELECT connection_id() AS id'))[0]?.['id']);
    const first = await idOf();
    await database.run(`KILL ${first}`);
    await until('it is gone', async () => !(await database.run('SHOW PROCESSLIST')).includes(`${first}\t`));
    expect(await idOf()).not.toBe(first);
  });

  it('servers that do not answer: exit 75 with their place', async () => {
    const { database, run } = await setUp();
    const topic = `import${++names}`;
    await database.topic({ topic, callback: callbackUrl, status: 0 });
    expect(await run('--redis', '127.0.0.1:1')).toMatchObject({
      code: 75,
      stderr: expect.stringContaining('Redis at 127.0.0.1:1: '),
    });
    // It was paused for its jobs.
    expect((await daemon.api('GET', `/v1/topics/${topic}`)).body.state).toBe('offline');
    const elsewhere = database.url.replace(/:\d+\//, ':1/');
    const lost = await importFrom(emptyDirectory(), ['php-delayqueue', '--mysql', elsewhere]);
    expect(lost).toMatchObject({ code: 75, stderr: expect.stringContaining('MySQL 127.0.0.1:1/') });
  });
});
