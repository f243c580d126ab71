// Tests commands against rare replies of a daemon: a scripted API, the real command.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { scopes } from '../../src/core/token.ts';
import { runDirOf, writeRunRecord } from '../../src/master/data/run-record.ts';
import { launcher } from '../support/daemon.ts';
import { listening } from '../support/listening.ts';
import { runDq, runDqHere, runDqOnTerminal } from '../support/run-dq.ts';
import { lacks, owned, workerRedis } from '../support/services.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';

interface Call {
  readonly method: string;
  readonly url: string;
  readonly type: string | undefined;
  readonly text: string;
  readonly json: Record<string, unknown>;
}
/** null breaks the connection */
type Answer = (call: Call, number: number) => { status: number; json: object } | null;

async function scriptedApi(answer: Answer): Promise<{ url: string; calls: Call[] }> {
  const calls: Call[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const call = {
        method: request.method ?? '',
        url: request.url ?? '',
        type: request.headers['content-type'],
        text,
        json:
          request.headers['content-type'] === 'application/json' && text.startsWith('{')
            ? (JSON.parse(text) as Record<string, unknown>)
            : {},
      };
      calls.push(call);
      const reply = answer(call, calls.filter(({ method }) => method === call.method).length);
      if (reply === null) request.socket.destroy();
      else response.writeHead(reply.status).end(JSON.stringify(reply.json));
    });
  });
  return { url: `http://127.0.0.1:${await listening(server)}`, calls };
}

function problem(status: number, code: string, more: object = {}): { status: number; json: object } {
  return { status, json: { title: 'Title', status, detail: 'Store away', code, errors: [], ...more } };
}

it('dead ls: filters by the reasons and the status', async () => {
  const api = await scriptedApi(() => ({ status: 200, json: { items: [], nextCursor: null } }));
  const flags = ['--dead-reason', 'gone', '--last-reason', 'status', '--status', '5xx'];
  expect(await runDq(['dead', 'ls', 't', ...flags, '--url', api.url])).toMatchObject({ code: 0 });
  expect(api.calls[0]?.url).toContain('/v1/dead?topic=t&deadReason=gone&lastReason=status&status=5xx&');
});

describe.skipIf(await lacks('redis'))('with a jobs.db that has not moved', async () => {
  const held = { items: [], nextCursor: null, missing: ['jobs.db'] };

  it('ls: says once what the lists of all states leave out', async () => {
    const api = await scriptedApi(() => ({ status: 200, json: held }));
    const { code, stderr } = await runDq(['ls', '--url', api.url]);
    expect([code, stderr]).toEqual([
      0,
      'dq: what jobs.db still holds is not shown; dq move brings it to Redis\n',
    ]);
  });

  it('move: goes on after a call that dq-store did not answer', async () => {
    const redis = await workerRedis();
    const directory = temporaryDirectory();
    await owned('test', Promise.resolve({ stop: async () => directory.remove() }));
    const file = join(directory.path, 'dq.yaml');
    writeFileSync(file, JSON.stringify({ dataDir: directory.path, redis: [redis.url] }));
    const moving = { state: 'moving', jobs: 2, total: 3, startedAt: null, problem: null };
    const before = { status: 200, json: { ...moving, state: 'held' } };
    const states = [
      ...[before, before],
      problem(503, 'unavailable'),
      problem(503, 'unavailable'),
      { status: 200, json: { ...moving, state: 'none', jobs: 0 } },
    ];
    const api = await scriptedApi(({ method, url }) => {
      if (url === '/v1/config') return { status: 200, json: { file, items: [] } };
      if (url === '/v1/store') return { status: 200, json: { kind: 'redis' } };
      return method === 'POST' ? { status: 202, json: moving } : (states.shift() ?? null);
    });
    mkdirSync(runDirOf(directory.path));
    const record = {
      pid: process.pid,
      startedAt: 0,
      file: null,
      console: null,
      compat: {},
      adminToken: 'x',
      version: '',
    };
    writeRunRecord(directory.path, { ...record, url: api.url });
    const { code, stderr } = await runDq(['move', '-y', '--data-dir', directory.path]);
    expect([code, stderr.split('\n')]).toEqual([
      0,
      [
        'dq: moving the jobs; it goes on without this command, and dq move shows it again',
        'dq: dq-store does not answer; the move goes on when it does',
        'dq: all jobs are on Redis',
        '',
      ],
    ]);
  });
});

it('explain: a reason of all notifiers is one line, others name the notifiers; also without an answer of the store', async () => {
  const because = (code: string, message: string) => ({ code, message, remedy: 'r', values: {} });
  const [all, some] = [because('isolation', 'all wait'), because('rate_reached', 'rate 4')];
  const lost = because('store_unavailable', 'the store cannot count the jobs (unavailable)');
  const notifiers = [[all, some], [some, all], [all], null].map((reasons, n) => ({
    notifier: `n${n}`,
    reasons,
  }));
  const answers = { topic: 't', states: null, attention: null, delayed: null, reasons: [lost] };
  const api = await scriptedApi(() => ({
    status: 200,
    json: { ...answers, notifiers: notifiers.slice(0, 3) },
  }));
  expect((await runDq(['explain', 't', '--url', api.url])).stdout).toBe(
    't: the store cannot count the jobs (unavailable)\ndelivery  all wait (r)\ndelivery  n0, n1: rate 4 (r)\n',
  );
  const silent = await scriptedApi(() => ({ status: 200, json: { ...answers, reasons: [], notifiers } }));
  expect((await runDq(['explain', 't', '--url', silent.url])).stdout).toBe(
    't: the store does not answer\n' +
      'delivery  n0, n1, n2: all wait (r)\n' +
      'delivery  n0, n1: rate 4 (r)\n' +
      'delivery  n3: does not answer; dq status shows the processes\n',
  );
});

it.each([
  [['token', 'add'], '--scope <list>', scopes.join(', ')],
  [['console'], '--scope <list>', scopes.join(', ')],
  [['start'], '--no-console', 'Serve no console'],
])('help of %j: %s', async (words, flag, text) => {
  const { stdout } = await runDqHere([...words, '--help']);
  expect(stdout.replaceAll(/\s+/g, ' ')).toContain(`${flag} ${text}`);
});

describe('dq alerts', () => {
  it('alerts: an incident of late jobs has topic and id of the oldest job, others the failing part', async () => {
    const at = '2030-01-31T09:00:00.000Z';
    const common = { at, state: 'begun', alert: 'sent', detail: 'x' };
    const incidents = [
      { ...common, kind: 'late', about: '', topic: 't', id: '4711', command: 'dq explain t' },
      { ...common, kind: 'crash_loop', about: 'timer', topic: null, id: null, command: 'dq status' },
    ];
    const json = { incidents, mail: { server: false, hooks: [] }, items: [], nextCursor: null };
    const api = await scriptedApi(() => ({ status: 200, json }));
    const run = await runDq(['alerts', '--url', api.url]);
    expect(run.stdout).toContain(`${at}  late begun        t      4711   -         sent  x\n`);
    expect(run.stdout).toContain(`${at}  crash_loop begun  -      timer  -         sent  x\n`);
    // Each alert is sent.
    expect(run.stderr).toBe('');
    const one = await runDq(['alerts', '--limit', '1', '--url', api.url]);
    expect(one.stdout.trimEnd().split('\n')).toHaveLength(2);
    expect(one.stderr).toBe('dq: there are more than 1 alerts; raise --limit\n');
  });
});

describe('dq dead requeue', () => {
  /** The newest dead letter, or their number. */
  const look = ({ url }: Call) => ({
    status: 200,
    json: url.includes('stats')
      ? { states: { dead: 30 } }
      : { items: [{ deadAt: '2030-01-01T00:00:00.999Z' }], nextCursor: null },
  });

  it('dead requeue: repeats until done, and leaves dead letters newer than its start', async () => {
    const api = await scriptedApi((call, number) =>
      call.method === 'GET' ? look(call) : { status: 200, json: { requeued: 10, more: number < 3 } },
    );
    const run = await runDq(['dead', 'requeue', '--topic', 't', '--url', api.url]);
    expect(run).toMatchObject({ code: 0, stdout: '' });
    expect(run.stderr).toBe('dq: 30 requeued\n');
    const filters = api.calls.filter(({ method }) => method === 'POST').map(({ json }) => json);
    expect(filters).toEqual(Array(3).fill({ topic: 't', until: '2030-01-01T00:00:01.000Z' }));
  });

  it('dead requeue: exits with 5 and the count after a partial failure', async () => {
    const api = await scriptedApi((call, number) => {
      if (call.method === 'GET') return look(call);
      return number === 1 ? { status: 200, json: { requeued: 10, more: true } } : problem(503, 'unavailable');
    });
    const run = await runDq(['dead', 'requeue', '--all', '--url', api.url]);
    expect(run.code).toBe(5);
    expect(run.stderr).toContain('10 requeued, then a failure: Store away');
  });

  it('dead requeue: exits with 1 when the first call fails', async () => {
    const api = await scriptedApi((call) =>
      call.method === 'GET' ? look(call) : problem(503, 'unavailable'),
    );
    expect((await runDq(['dead', 'requeue', '--all', '--url', api.url])).code).toBe(1);
  });

  it('dead requeue: works for a token without the right to read counts', async () => {
    const api = await scriptedApi((call) => {
      if (call.url.includes('stats')) return problem(403, 'forbidden');
      return call.method === 'GET' ? look(call) : { status: 200, json: { requeued: 10, more: false } };
    });
    expect((await runDq(['dead', 'requeue', '--topic', 't', '--url', api.url])).code).toBe(0);
  });

  it('shows a bar on a terminal', async ({ skip }) => {
    if (spawnSync('script', ['--version']).status !== 0) skip('script(1) of util-linux is not here');
    const api = await scriptedApi((call, number) =>
      call.method === 'GET' ? look(call) : { status: 200, json: { requeued: 15, more: number < 2 } },
    );
    // It asks no question: the bar ends with the command.
    const run = await runDqOnTerminal(['dead', 'requeue', '--all', '--url', api.url], '');
    expect(run.stdout).toContain('of 30 requeued');
    expect(run.stdout).toContain('dq: 30 requeued');
    expect(run.code).toBe(0);
  });
});

describe('dq dead purge', () => {
  const answer = (call: Call, number: number) => {
    if (call.url.includes('stats')) return { status: 200, json: { states: { dead: 20 } } };
    const newest = { items: [{ deadAt: '2030-01-01T00:00:00.999Z' }], nextCursor: null };
    if (call.method === 'GET') return { status: 200, json: newest };
    return { status: 200, json: { purged: 10, more: number < 2 } };
  };

  it('dead purge: needs -y without a terminal', async () => {
    const api = await scriptedApi(answer);
    const rejected = await runDq(['dead', 'purge', '--all', '--url', api.url]);
    expect(rejected.code).toBe(1);
    expect(rejected.stderr).toContain('Remove 20 dead letters for good?');
    expect(api.calls.filter(({ method }) => method === 'DELETE')).toEqual([]);
    const run = await runDq(['dead', 'purge', '--all', '-y', '--json', '--url', api.url]);
    expect(run).toMatchObject({ code: 0, stderr: 'dq: 20 purged\n' });
    expect(run.stdout).toBe('{"purged":10,"more":true}\n{"purged":10,"more":false}\n');
    const query = '/v1/dead?until=2030-01-01T00%3A00%3A01.000Z&all=true';
    expect(api.calls.filter(({ method }) => method === 'DELETE').map(({ url }) => url)).toEqual([
      query,
      query,
    ]);
  });

  it('dead purge, clear, topic rm: the question has the number of jobs that would go', async () => {
    const counted = { id: 'o', state: 'finished', done: 0, skipped: 0, failed: 0, matched: 7 };
    const api = await scriptedApi(({ url, json }) => {
      if (url.includes('stats'))
        return { status: 200, json: { states: { delayed: 3, ready: 2, reserved: 1, dead: 4 } } };
      if (url === '/v1/operations') return { status: json['dryRun'] === true ? 201 : 500, json: counted };
      return { status: 200, json: { items: [], nextCursor: null } };
    });
    for (const [words, question] of [
      [['dead', 'purge', 't', '--dead-reason', 'gone'], 'Remove 7 dead letters for good?'],
      [['dead', 'purge', 't', '--since', '24h'], 'Remove 7 dead letters for good?'],
      [['clear', 't'], 'End 10 jobs of the topic t?'],
      [['clear', '--all'], 'This ends 10 jobs of every topic,'],
      [['topic', 'rm', 't', '--purge'], 'Delete the topic t and its 10 jobs?'],
    ] as const) {
      const run = await runDq([...words, '--url', api.url]);
      expect(run.code).toBe(1);
      expect(run.stderr).toContain(question);
    }
    expect(api.calls.filter(({ method }) => method === 'DELETE')).toEqual([]);
  });

  it('dead requeue, purge: name the state of a job that did not move', async () => {
    for (const [verb, done] of [
      ['requeue', 'requeued'],
      ['purge', 'purged'],
    ] as const) {
      const api = await scriptedApi(({ method, url }) => {
        if (method !== 'GET') return { status: 200, json: { [done]: 0, more: false } };
        return url.endsWith('/a')
          ? { status: 200, json: { state: 'delayed' } }
          : problem(404, 'job_not_found');
      });
      const yes = verb === 'purge' ? ['-y'] : [];
      const of = (...ids: string[]) =>
        runDq(['dead', verb, 't', ...yes, ...ids.flatMap((id) => ['--id', id]), '--url', api.url]);
      const said = { code: 4, stderr: `dq: 0 of 1 ${done}; the job is delayed: dq get t a\n` };
      expect(await of('a')).toMatchObject(said);
      expect((await of('b')).stderr).toContain(
        `0 of 1 ${done}; Store away; dq ls --id b looks in every topic`,
      );
      expect((await of('a', 'b')).stderr).toContain(`0 of 2 ${done}; dq get t ID shows what another one is`);
    }
  });

  it('dead purge: exits with 5 for some unknown ids, with 4 for all', async () => {
    for (const [purged, code] of [
      [2, 0],
      [1, 5],
      [0, 4],
    ] as const) {
      const api = await scriptedApi(() => ({ status: 200, json: { purged, more: false } }));
      const named = ['--topic', 't', '--id', 'a,b', '--id', 'c', '--id', 'c'];
      const run = await runDq(['dead', 'purge', '-y', ...named, '--url', api.url]);
      expect(run.code, run.stderr).toBe(code);
      const query = new URL(api.calls[0]?.url ?? '', api.url).searchParams;
      expect(Object.fromEntries(query)).toEqual({ topic: 't', ids: '["a,b","c"]' });
    }
  });

  it('without a filter, or with --id alone, is wrong usage', async () => {
    expect((await runDq(['dead', 'purge', '-y'])).code).toBe(2);
    expect(
      (await runDq(['dead', 'purge', '-y', '--all', '--id', 'a', '--url', 'http://127.0.0.1:1'])).code,
    ).toBe(2);
  });
});

describe('dq fsck and backup', () => {
  const states = (...states: object[]) =>
    scriptedApi(({ method }, number) =>
      method === 'POST'
        ? { status: 202, json: { state: 'running' } }
        : { status: 200, json: states[number - 1] ?? {} },
    );

  it('fsck: prints problems as data and exits with 1', async () => {
    const problem = {
      invariant: 'I1',
      what: 'jobs without a body',
      count: 2,
      examples: ['t/a', 't/b\u001b'],
    };
    const running = { state: 'running' };
    const api = await states(running, { state: 'done', jobs: 9, problems: [problem] });
    const run = await runDq(['fsck', '--url', api.url]);
    expect(run.code).toBe(1);
    expect(run.stdout).toMatch(/^I1 +jobs without a body +2 +t\/a t\/b\\u001b$/m);
    expect(run.stderr).toContain('1 invariants of the store are broken');
    expect(api.calls.map(({ method, url }) => `${method} ${url}`)).toEqual([
      ...['POST /v1/fsck', 'GET /v1/fsck', 'GET /v1/fsck'],
    ]);
  });

  it('fsck, backup: report failed or lost work with 1', async () => {
    const failed = await states({ state: 'failed', reason: 'no room' });
    expect(await runDq(['backup', 'x', '--url', failed.url])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'dq: no room\n',
    });
    const lost = await states({ state: 'none' });
    const run = await runDq(['backup', 'x', '--url', lost.url]);
    expect(run.code).toBe(1);
    expect(run.stderr).toContain('run this again');
    expect(lost.calls[0]?.json).toEqual({ directory: join(process.cwd(), 'x') });
  });
});

describe('dq topic rm --purge', () => {
  /** No schedule pushes to the topic. */
  async function apiOf(answer: Answer): Promise<{ url: string; removals(): readonly string[] }> {
    const noSchedules = { status: 200, json: { items: [], nextCursor: null } };
    const { url, calls } = await scriptedApi((call, number) =>
      call.method === 'GET' ? noSchedules : answer(call, number),
    );
    return { url, removals: () => calls.filter(({ method }) => method !== 'GET').map((call) => call.url) };
  }

  it('topic rm --purge: repeats until done and prints the sum', async () => {
    const api = await apiOf((_, number) =>
      number < 3
        ? problem(409, 'topic_has_jobs', { purged: 100, jobs: 5 })
        : { status: 200, json: { deleted: true, purged: 5 } },
    );
    const run = await runDq(['topic', 'rm', 't', '--purge', '-y', '--url', api.url]);
    expect(run).toMatchObject({ code: 0, stdout: '', stderr: 'dq: deleted t, with 205 jobs\n' });
    expect(api.removals()).toEqual(Array(3).fill('/v1/topics/t?jobs=purge'));
  });

  it('topic rm --purge: stops when a call deletes nothing', async () => {
    const api = await apiOf(() => problem(409, 'topic_has_jobs', { purged: 0, jobs: 5 }));
    const run = await runDq(['topic', 'rm', 't', '--purge', '-y', '--url', api.url]);
    expect(run).toMatchObject({ code: 1, stdout: '' });
    expect(run.stderr).toBe('dq: t still has 5 jobs and is offline; try again, or run dq topic resume t\n');
    expect(api.removals()).toHaveLength(1);
  });

  it('topic rm: keeps a topic with jobs', async () => {
    const api = await apiOf(() => problem(409, 'topic_has_jobs', { purged: 0, jobs: 5 }));
    const run = await runDq(['topic', 'rm', 't', '-y', '--url', api.url]);
    expect(run).toMatchObject({ code: 1, stdout: '' });
    expect(run.stderr).toBe(
      'dq: t has 5 jobs, dead letters included; nothing was changed. --purge deletes them too\n',
    );
    expect(api.removals()).toEqual(['/v1/topics/t']);
  });
});

describe('dq push of one job', () => {
  it.each([
    ['text', 'name;price\n', '\ufeffname;price\n', 'dq: due now\n'],
    ['JSON', '[1]', '[1]', 'dq: skipped the byte order mark at the beginning of the file\ndq: due now\n'],
  ])('skips no byte order mark but that of JSON: %s', async (_, rest, sent, stderr) => {
    const json = { id: 'x', state: 'ready', dueAt: '2030-01-01T00:00:00.000Z' };
    const api = await scriptedApi(() => ({ status: 201, json }));
    const run = await runDq(['push', 't', '-', '--url', api.url], { input: `\ufeff${rest}` });
    expect(run).toMatchObject({ code: 0, stderr });
    expect(api.calls.map(({ text }) => text)).toEqual([sent]);
  });
});

describe('dq push --batch', () => {
  /** Rejects items with the body 0. */
  const answer = ({ text }: Call) => {
    const items = text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as { id: string; body: number });
    const bad = (n: number) => ({
      ...problem(400, 'invalid').json,
      errors: [
        { field: `items[${n}].id`, message: 'is bad' },
        { field: `items[${n}]`, message: 'is odd, as items[0].id' },
      ],
    });
    const results = items.map(({ id, body }, n) => (body === 0 ? bad(n) : { status: 201, id }));
    const failed = items.filter(({ body }) => body === 0).length;
    return { status: 200, json: { accepted: items.length - failed, failed, results } };
  };
  const line = (id: number, body = 1) => `{"topic":"t","id":"${id}","body":${body}}`;

  it('skips a byte order mark at the beginning, and says so', async () => {
    const api = await scriptedApi(answer);
    const input = `\ufeff${line(1)}\n${line(2)}\n`;
    const run = await runDq(['push', '--batch', '-', '--url', api.url], { input });
    expect(run).toMatchObject({
      code: 0,
      stderr: 'dq: skipped the byte order mark at the beginning of the file\ndq: 2 accepted\n',
    });
    expect(api.calls.map(({ text }) => text)).toEqual([`${line(1)}\n${line(2)}\n`]);
  });

  it('sends the lines in order, at most 1000 at once, and prints the ids', async () => {
    const api = await scriptedApi(answer);
    const numbers = Array.from({ length: 2_100 }, (_, n) => n);
    const input = `\n${numbers.map((n) => line(n)).join('\r\n \n')}`;
    const run = await runDq(['push', '--batch', '-', '--url', api.url], { input });
    expect(run).toMatchObject({ code: 0, stderr: 'dq: 2100 accepted\n' });
    expect(run.stdout).toBe(`${numbers.join('\n')}\n`);
    expect(api.calls.map(({ url, type }) => [url, type])).toEqual(
      Array(3).fill(['/v1/jobs', 'application/x-ndjson']),
    );
    const sent = api.calls.map(({ text }) => text.trimEnd().split('\n'));
    expect(sent.map(({ length }) => length)).toEqual([1_000, 1_000, 100]);
    expect(sent.flat().map((text) => text.trimEnd())).toEqual(numbers.map((n) => line(n)));
  });

  it('push --batch: names the rejected line; exits with 5, or 1 without accepted lines', async () => {
    const api = await scriptedApi(answer);
    const input = `${line(1)}\n\n${line(2, 0)}\n${line(3)}\n`;
    const some = await runDq(['push', '--batch', '-', '--url', api.url], { input });
    expect(some).toMatchObject({ code: 5, stdout: '1\n3\n' });
    expect(some.stderr).toBe('dq: line 3: id: is bad; is odd, as items[0].id\ndq: 2 accepted, 1 rejected\n');
    const none = await runDq(['push', '--batch', '-', '--json', '--url', api.url], { input: line(1, 0) });
    expect(none.code).toBe(1);
    expect(JSON.parse(none.stdout)).toMatchObject({ accepted: 0, failed: 1 });
  });

  it('push --batch: names the lines of a failure and the accepted count', async () => {
    const api = await scriptedApi((call, number) =>
      number === 1 ? answer(call) : problem(503, 'not_stored'),
    );
    const input = Array.from({ length: 1_500 }, (_, n) => line(n)).join('\n');
    const run = await runDq(['push', '--batch', '-', '--url', api.url], { input });
    expect(run.code).toBe(5);
    expect(run.stderr).toBe('dq: 1000 accepted; lines 1001 to 1500: Store away\n');
    const broken = await scriptedApi(() => null);
    const gone = await runDq(['push', '--batch', '-', '--url', broken.url], { input: line(1) });
    expect(gone.code).toBe(69);
  });

  it('push --batch: reports the jobs accepted before an invalid line', async () => {
    const api = await scriptedApi(answer);
    const long = 'x'.repeat(16.5 * 1024 * 1024);
    const lines = Array.from({ length: 1_100 }, (_, n) => line(n));
    const run = await runDq(['push', '--batch', '-', '--url', api.url], {
      input: [...lines, long].join('\n'),
    });
    expect(run).toMatchObject({
      code: 5,
      stderr: 'dq: 1100 accepted; line 1101: longer than 16777216 bytes\n',
    });
    const none = await runDq(['push', '--batch', '-', '--url', api.url], { input: long });
    expect(none).toMatchObject({ code: 1, stderr: 'dq: line 1: longer than 16777216 bytes\n' });
  });

  it('push --batch: a file that it cannot read has no lines', async () => {
    const run = await runDq(['push', '--batch', '@nofile', '--url', 'http://127.0.0.1:1']);
    expect(run).toMatchObject({
      code: 2,
      stderr: "dq: cannot read the input: ENOENT: no such file or directory, open 'nofile'\n",
    });
  });

  it('push --batch: exits with 5 when its output closes early', async () => {
    const api = await scriptedApi(answer);
    // More ids than a pipe holds: the last ones have no reader.
    const long = (n: number) => `{"topic":"t","id":"${String(n).padStart(100, '0')}","body":1}`;
    const input = Array.from({ length: 5_000 }, (_, n) => long(n)).join('\n');
    const command = `"${process.execPath}" "${launcher}" push --batch - --url ${api.url} | head -1; exit "\${PIPESTATUS[0]}"`;
    const run = spawn('bash', ['-c', command], { stdio: ['pipe', 'ignore', 'pipe'] });
    let stderr = '';
    run.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    run.stdin.on('error', () => {});
    run.stdin.end(input);
    const [code] = await once(run, 'close');
    expect(stderr).toBe('dq: the output was closed; work is incomplete\n');
    expect(code).toBe(5);
  });

  it('push --batch: rejects a topic and an id', async () => {
    const url = ['--url', 'http://127.0.0.1:1'];
    expect((await runDq(['push', 't', '--batch', '-', ...url])).code).toBe(2);
    expect((await runDq(['push', '--batch', '-', '--id', 'x', ...url])).code).toBe(2);
  });
});

describe('dq push without a clear answer', () => {
  it('push: prints the generated id for a safe repeat', async () => {
    const api = await scriptedApi(() => problem(503, 'unknown', { id: 'made-1' }));
    const run = await runDq(['push', 't', '1', '--url', api.url]);
    expect(run).toMatchObject({ code: 1, stdout: '' });
    expect(run.stderr).toContain('--id made-1');
  });

  it('push: exits with 69 and a warning when the connection breaks', async () => {
    const api = await scriptedApi(() => null);
    const made = await runDq(['push', 't', '1', '--url', api.url]);
    expect(made).toMatchObject({ code: 69, stdout: '' });
    expect(made.stderr).toContain('the job may be stored');
    expect(made.stderr).toContain('second job');
    const given = await runDq(['push', 't', '1', '--id', 'x', '--url', api.url]);
    expect(given.stderr).toContain('with this --id is safe');
  });

  it('push: prints no warning when nothing was sent', async () => {
    const run = await runDq(['push', 't', '1', '--url', 'http://127.0.0.1:1']);
    expect(run.code).toBe(69);
    expect(run.stderr).not.toContain('may be stored');
  });
});

it('cancel: reports an attempt that is still running', async () => {
  const api = await scriptedApi(() => ({ status: 200, json: { cancelled: true, inFlight: true } }));
  const run = await runDq(['cancel', 't', 'x', '--url', api.url]);
  expect(run).toMatchObject({ code: 0, stdout: '' });
  expect(run.stderr).toContain('may still finish');
});

it('get: escapes control characters of bodies and replies', async () => {
  const clear = '\u001b[2J';
  const attempt = {
    attempt: 1,
    startedAt: 'then',
    durationMs: 1,
    outcome: 'failed',
    status: 500,
    reason: 'status',
  };
  const job = {
    ...{ topic: 't', id: 'x', version: '1', state: 'delayed', dueAt: 'then', createdAt: 'then', attempt: 1 },
    ...{ maxAttempts: 10, contentType: 'text/plain', body: `body${clear}` },
    attempts: [{ ...attempt, replyExcerpt: `reply${clear}`, notifier: 'dq-notifier-0', host: 'h' }],
  };
  const api = await scriptedApi(() => ({ status: 200, json: job }));
  const shown = await runDq(['get', 't', 'x', '--url', api.url]);
  expect(shown.stdout).toContain('reply\\u001b[2J');
  expect(shown.stdout).not.toContain('\u001b');
  expect((await runDq(['get', 't', 'x', '--url', api.url, '--body'])).stdout).toBe(job.body);
});
