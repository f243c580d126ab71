// Commands of dq against a daemon.
import { spawnSync } from 'node:child_process';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isAlive, startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { commandsOf, runDq, runDqOnTerminal } from '../support/run-dq.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const silent = 'http://127.0.0.1:1/';
/** Computed from the Date of the reply, which has whole seconds: the push may be in the second before. */
const inAnHour = /^dq: due at \S+Z, in (1h|59m5\ds)\n$/;

const daemon = await sharedDaemon();
const dq = commandsOf(daemon);

/** The lines that it prints. */
const rowsOf = async (args: readonly string[]) => (await dq(args)).stdout.trimEnd().split('\n');
const untilDead = (topic: string, count: number) =>
  until(`${count} are dead`, async () => {
    const { items } = (await daemon.api('GET', `/v1/dead?topic=${topic}`)).body;
    return items.length === count;
  });

describe('dq topic', () => {
  it('topic add: marks the error in the rule, and registers nothing', async () => {
    const run = await dq(['topic', 'add', 'unmade', '--callback', silent, '--rule', '{res.code} <> 200']);
    expect(run).toMatchObject({ code: 1, stdout: '' });
    expect(run.stderr).toContain('\n  {res.code} <> 200\n             ^');
    expect((await dq(['topic', 'get', 'unmade'])).code).toBe(4);
  });

  it('topic add and set: print how the topic judges the replies that its rule distinguishes', async () => {
    const add = ['topic', 'add', 'judged', '--callback', silent];
    const set = (...flags: readonly string[]) => dq(['topic', 'set', 'judged', ...flags]);
    const added = await dq([...add, '--rule', '{res.code}==0']);
    expect(added.stderr).toBe(
      [
        'dq: how judged judges a reply:',
        '{"code":0}    failure: rule    retried',
        '{"code":1}    success          done',
        '{"code":200}  success          done',
        'empty reply   failure: rule    retried',
        'status 500    failure: status  retried',
        'dq: warning: the rule retries {"code":0}, which usually means success; a rule is true for failure. Meant {res.code}!==0?',
        'dq: registered judged; its secret, shown only once:\n',
      ].join('\n'),
    );
    expect(added.stdout).toMatch(/^whsec_\S+\n$/);
    expect((await set('--rule', '{res.code}!==0')).stderr).toBe(
      [
        'dq: how judged judges a reply:',
        '{"code":0}    success          done',
        '{"code":1}    failure: rule    retried',
        '{"code":200}  failure: rule    retried',
        'empty reply   failure: rule    retried',
        'status 500    failure: status  retried',
        'dq: changed judged; effective within 2 s\n',
      ].join('\n'),
    );
    expect((await set('--empty-reply', 'retry')).stderr).toMatch(
      /^empty reply +failure: empty_reply +retried$/m,
    );
    expect((await set('--ok-status', '2xx,5xx')).stderr).toMatch(/^status 500 +failure: rule +retried$/m);
    expect((await set('--rule', '', '--max-attempts', '1')).stderr).toMatch(
      /^\{"code":200\} +success +done\nempty reply +failure: empty_reply +dead letter$/m,
    );

    const usual = 'which usually means success; it is true';
    for (const rule of ['{status}==200', '{res.code}==200']) {
      const names = rule === '{status}==200' ? '{"code":200} and empty reply' : '{"code":200}';
      expect((await set('--dead-if', rule)).stderr).toContain(
        `dq: warning: deadIf buries ${names}, ${usual} for jobs that can never succeed\n`,
      );
      expect((await set('--dead-if', '', '--again-if', rule, '--again-after', '1m')).stderr).toContain(
        `dq: warning: againIf snoozes ${names}, ${usual} while the receiver is not ready\n`,
      );
    }

    const verdicts = ['--max-attempts', '5', '--dead-if', '{res.code}=="E_ARG"'];
    expect(
      (await set(...verdicts, '--again-if', '{res.state}=="pending"', '--again-after', '5m')).stderr,
    ).toBe(
      [
        'dq: how judged judges a reply:',
        '{"code":"E_ARG"}     failure: dead_rule    dead letter',
        '{"code":"other"}     success               done',
        '{"state":"pending"}  snooze                called again, no attempt counted',
        '{"state":"other"}    success               done',
        '{"code":200}         success               done',
        'empty reply          failure: empty_reply  retried',
        'status 500           success               done',
        'dq: changed judged; effective within 2 s\n',
      ].join('\n'),
    );
    expect((await set('--dead-if', '{res.code}=')).stderr).toContain('\n  {res.code}=\n            ^');
    expect((await set('--dead-if', '{status}>=500')).stderr).toContain('is true for an empty 502 and 503');
    const rows: readonly (readonly [string, string])[] = [
      ['{"code":"E_ARG"}', 'dead (deadIf)'],
      ['{"state":"pending"}', 'again (againIf)'],
      ['', 'retry (emptyReply)'],
      ['{}', 'done'],
    ];
    for (const [reply, verdict] of rows)
      expect((await dq(['rule', 'test', '--topic', 'judged', '--reply', reply])).stdout).toContain(
        `verdict      ${verdict}\n`,
      );
    const json = ['rule', 'test', '--topic', 'judged', '--reply', '', '--header', 'dq-again: 10m', '--json'];
    expect(JSON.parse((await dq(json)).stdout)).toMatchObject({ verdict: 'again', by: 'dq-again' });
    expect((await dq(['rule', 'test', '--reply', ''])).code).toBe(2);
    expect((await dq(['rule', 'test', '1==1', '--topic', 'judged', '--reply', ''])).code).toBe(2);

    for (const flags of [
      ['--delay', '1m'],
      ['--rule', '', '--json'],
    ])
      expect((await set(...flags)).stderr).not.toContain('judges');
    const pulled = ['topic', 'add', 'judged.pull', '--pull', '--ok-status', '2xx'];
    expect((await dq(pulled)).stderr).not.toContain('judges');
  });

  it('topic add and set: warn of alert addresses where no mail server is configured', async () => {
    const warning =
      'dq: warning: smtp.url is not set, so no mail goes out; alerts go to the error log only; see dq help dead-letters-alerts\n';
    const added = await dq(['topic', 'add', 'mailed', '--callback', silent, '--alert', 'ops@example.org']);
    expect([added.code, added.stderr]).toEqual([0, expect.stringContaining(warning)]);
    const set = (...flags: readonly string[]) => dq(['topic', 'set', 'mailed', ...flags]);
    expect((await set('--alert', 'night@example.org')).stderr).toContain(warning);
    expect((await set('--title', 'with mail')).stderr).not.toContain('warning');
    expect((await set('--alert', 'ops@example.org', '--json')).stderr).not.toContain('warning');
    expect((await set('--alert', '')).stderr).not.toContain('warning');
  });

  it('topic add: accepts the trial secret only for callbacks to this machine', async () => {
    const add = (url: string) => dq(['topic', 'add', 'trial', '--callback', url, '--secret', 'trial']);
    expect((await add('http://10.0.0.1/')).code).toBe(2);
    expect(await add('http://127.0.0.1:9/')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^whsec_/),
    });
  });

  it('topic test: prints the verdict of one call or message, and exits with 1 for a failure', async () => {
    const sink = await startSink(status(200));
    await dq(['topic', 'add', 'tested', '--callback', sink.url]);
    const called = await dq(['topic', 'test', 'tested', '{"a":1}', '--type', 'text/plain']);
    expect(called.stdout).toMatch(/^call +POST \S+, by dq-notifier-\d in \d+ ms\nresult +success, 200$/m);
    expect([called.code, sink.arrivals[0]?.headers['content-type']]).toEqual([0, 'text/plain']);

    // dq signs no message, so it prints no secret.
    expect(await dq(['topic', 'add', 'published', '--target', 'main//queue/a#k'])).toMatchObject({
      ...{ code: 0, stdout: '', stderr: 'dq: registered published\n' },
    });
    expect((await dq(['topic', 'ls', '--search', 'publ'])).stdout).toContain(' main//queue/a#k ');
    expect((await dq(['topic', 'get', 'published'])).stdout).toMatch(/^target +main\/\/queue\/a#k$/m);
    const failed = await dq(['topic', 'test', 'published']);
    expect(failed.stdout).toMatch(
      /^call +PUBLISH main\/\/queue\/a#k, .*\nresult +failed connect .*ECONNREFUSED.*\na job +would be retried after 1h$/m,
    );
    expect(failed).toMatchObject({
      ...{ code: 1, stderr: 'dq: the test message of published was not confirmed\n' },
    });
  });

  it('asks on a terminal before it deletes', async ({ skip }) => {
    // util-linux provides the terminal.
    if (spawnSync('script', ['--version']).status !== 0) skip('no script(1) here');
    await dq(['topic', 'add', 'asked', '--callback', silent]);
    const remove = ['topic', 'rm', 'asked', '--data-dir', daemon.dataDir];
    const refused = await runDqOnTerminal(remove, 'n\n');
    expect(refused).toMatchObject({ code: 1, stdout: expect.stringContaining('[y/N]') });
    expect((await daemon.api('GET', '/v1/topics/asked')).status).toBe(200);
    expect((await runDqOnTerminal(remove, 'y\n')).code).toBe(0);
    expect((await daemon.api('GET', '/v1/topics/asked')).status).toBe(404);
  });

  it('topic ls: lists all pages; --json prints one line per page', async () => {
    const names = Array.from({ length: 101 }, (_, i) => `page${String(i).padStart(3, '0')}`);
    const mine = (all: readonly string[]) => all.filter((topic) => topic.startsWith('page')).sort();
    for (const topic of names) {
      const reply = await daemon.api('POST', '/v1/topics', { topic, callbackUrl: silent });
      expect(reply.status).toBe(201);
    }
    const listed = (await rowsOf(['topic', 'ls'])).slice(1);
    expect(mine(listed.map((line) => line.split(' ')[0] ?? ''))).toEqual(names);
    const pages = await rowsOf(['topic', 'ls', '--json']);
    const items = pages.flatMap((page) => (JSON.parse(page) as { items: { topic: string }[] }).items);
    expect(mine(items.map(({ topic }) => topic))).toEqual(names);
  });
});

describe('dq push, get, cancel', () => {
  it('push prints the id alone; the body travels byte for byte from an argument, a file, a pipe', async () => {
    await dq(['topic', 'add', 'raw', '--callback', silent, '--delay', '1h']);
    const job = async (id: string) =>
      (await daemon.api('GET', `/v1/topics/raw/jobs/${encodeURIComponent(id)}`)).body;

    const plain = await dq(['push', 'raw', '{"n": 1.0}']);
    expect(plain.code).toBe(0);
    expect(plain.stderr).toMatch(inAnHour);
    expect(plain.stdout).toMatch(/^[0-9a-f-]{36}\n$/);
    expect(await job(plain.stdout.trim())).toMatchObject({
      body: '{"n": 1.0}',
      contentType: 'application/json',
      state: 'delayed',
    });

    expect((await dq(['push', 'raw', '--id', '订单/1', '-'], { input: '中文 text' })).stdout).toBe(
      '订单/1\n',
    );
    expect(await job('订单/1')).toMatchObject({ body: '中文 text', contentType: 'text/plain' });

    const binary = Buffer.from([0, 0xff, 0x1b]);
    await dq(['push', 'raw', '-', '--id', 'binary'], { input: binary });
    expect(await job('binary')).toMatchObject({ bodyBase64: binary.toString('base64') });
    expect((await dq(['get', 'raw', 'binary', '--body'])).bytes).toEqual(binary);

    const cwd = testDirectory();
    writeFileSync(join(cwd, 'body.xml'), '<a/>');
    await dq(['push', 'raw', '@body.xml', '--id', 'file', '--type', 'application/xml'], { cwd });
    expect(await job('file')).toMatchObject({ body: '<a/>', contentType: 'application/xml' });
    expect((await dq(['push', 'raw', '@absent'], { cwd })).code).toBe(2);

    await dq(['push', 'raw', '--id', 'empty', '--empty']);
    expect(await job('empty')).toMatchObject({ body: '' });
  });

  it('push: sends delay, time and mode; exits with 1, or 4 without topic', async () => {
    await dq(['topic', 'add', 'when', '--callback', silent, '--delay', '1h']);
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
    expect((await dq(['push', 'when', '1', '--id', 'a', '--at', tomorrow])).code).toBe(0);
    expect((await daemon.api('GET', '/v1/topics/when/jobs/a')).body.dueAt).toBe(tomorrow);
    const kept = await dq(['push', 'when', '2', '--id', 'a', '--mode', 'keep', '--json']);
    expect(JSON.parse(kept.stdout)).toMatchObject({ id: 'a', duplicate: true });
    expect((await dq(['push', 'when', '2', '--id', 'a', '--mode', 'reject'])).code).toBe(1);

    const unitless = await dq(['push', 'when', '1', '--delay', '30']);
    expect(unitless).toMatchObject({ code: 1, stdout: '' });
    expect(unitless.stderr).toBe('dq: --delay: "30" has no unit; write 30s or 30ms\n');
    expect((await dq(['push', 'absent', '1'])).code).toBe(4);
  });

  it('push: prints the due time', async () => {
    await dq(['topic', 'add', 'due', '--callback', silent, '--delay', '1h']);
    const said = async (...args: readonly string[]) => (await dq(['push', 'due', '1', ...args])).stderr;
    expect(await said('--id', 'a')).toMatch(inAnHour);
    expect(await said('--delay', '2 hours')).toMatch(/^dq: due at \S+Z, in 2h\n$/);
    expect(await said('--delay', '90d')).toMatch(/^dq: due at \S+Z, in 90d\n$/);
    expect(await said('--delay', '0')).toBe('dq: due now\n');
    expect(await said('--id', 'a')).toMatch(/^dq: replaced the job of this id; due at \S+Z, in 1h\n$/);
    expect(await said('--id', 'a', '--mode', 'keep')).toMatch(
      /^dq: kept the waiting job, which is due at \S+Z, in (1h|5\dm(\d+s)?)\n$/,
    );
  });

  it('push: says that dq holds the job, and the command that ends it', async () => {
    await dq(['topic', 'add', 'still', '--callback', silent, '--delay', '1h']);
    await dq(['topic', 'pause', 'still']);
    const warning = 'dq: warning: topic still is paused, so dq holds its jobs; dq topic resume still\n';
    await until('the pause counts', async () => (await dq(['push', 'still', '1'])).stderr.endsWith(warning));
    expect((await dq(['push', 'still', '1', '--delay', '0'])).stderr).toBe(`dq: due now\n${warning}`);
    const lines = '{"topic":"still","body":1}\n'.repeat(2);
    const batch = await dq(['push', '--batch', '-'], { input: lines });
    expect(batch.stderr).toBe(`${warning}dq: 2 accepted\n`);
    await dq(['topic', 'offline', 'still']);
    await until('the topic is offline', async () => (await dq(['push', 'still', '1'])).code !== 0);
    expect((await dq(['push', 'still', '1'])).stderr).toBe(
      'dq: topic still is offline and accepts no jobs; resume it: dq topic resume still\n',
    );
  });

  it('push: names a mistake and the right form, and stores nothing', async () => {
    await dq(['topic', 'add', 'order.close', '--callback', silent, '--delay', '1h']);
    const right = `dq push order.close '{"order":4711}'`;
    const slips: readonly (readonly [args: readonly string[], says: string, code: number, input?: string])[] =
      [
        [[], `the job has no body: ${right}, @FILE for a file, - for standard input, or --empty`, 2],
        [[''], 'the job has no body', 2],
        [['-'], 'the job has no body', 2, ''],
        [['{"a":1}', '--empty'], '--empty: the job has a body', 2],
        [['{a:1}'], `quote it: ${right}; to push it as text add --type text/plain`, 2],
        [['[1,'], 'quote it: ', 2],
        [['a:1', 'b:2'], `too many arguments; quote the body: ${right}`, 2],
        [['-'], 'for one job per line use --batch', 2, '{"a":1}\n{"a":2}\n'],
        [['{"delay":"30s","body":{"a":1}}'], 'body: looks like an item of a batch', 1],
        [['{"a":1}', '--mode', 'skip'], '--mode: must be', 1],
        [['1', '--id', 'x'.repeat(257)], '--id: must be', 1],
        [['1', '--type', 'é'], '--type: ', 1],
      ];
    for (const [args, says, code, input] of slips) {
      const run = await dq(['push', 'order.close', ...args], input === undefined ? {} : { input });
      expect(run, args.join(' ')).toMatchObject({ code, stdout: '' });
      expect(run.stderr).toContain(says);
      expect(run.stderr.trimEnd().split('\n')).toHaveLength(1);
    }
    const bare = await dq(['push', '{"a":1}']);
    expect(bare).toMatchObject({ code: 2, stderr: expect.stringContaining('name a topic before the body') });
    const typo = await dq(['push', 'order.clse', '1']);
    expect(typo).toMatchObject({
      code: 4,
      stderr: 'dq: there is no topic "order.clse"; did you mean order.close?\n',
    });
    expect((await daemon.api('GET', '/v1/jobs?topic=order.close')).body.items).toEqual([]);
    for (const args of [
      ['--empty'],
      ['{a:1}', '--type', 'text/plain'],
      ['{"delay":"30s","body":{"a":1}}', '--literal'],
    ])
      expect((await dq(['push', 'order.close', ...args])).code, args.join(' ')).toBe(0);
  });

  it('errors name the flag, not the API field', async () => {
    await dq(['topic', 'add', 'flag', '--callback', silent]);
    for (const [args, says] of [
      [['topic', 'add', 'x', '--callback', 'localhost'], '--callback: '],
      [
        ['topic', 'set', 'flag', '--backoff', '15s,30'],
        '--backoff, value 2: "30" has no unit; write 30s or 30ms',
      ],
      [['topic', 'set', 'flag', '--alert', 'nobody'], '--alert, value 1: '],
      [['topic', 'set', 'flag', '--header', 'host: x'], '--header host: '],
      [['topic', 'set', 'flag', '--rule', '{'], '--rule: '],
      [['topic', 'add', 'x', '--callback', silent, '--secret', 'x'], '--secret: '],
      [['dead', 'requeue', 'flag', '--since', 'noon'], '--since: '],
      [['ls', '--since', 'noon'], '--since: '],
      [['token', 'add', 'x', '--scope', 'write'], '--scope'],
    ] as const) {
      const run = await dq([...args]);
      expect(run.code, args.join(' ')).toBe(1);
      expect(run.stderr).toMatch(/^dq: /);
      expect(run.stderr.slice(4, 4 + says.length), run.stderr).toBe(says);
    }
    for (const command of [
      ['dead', 'requeue', 'flagg'],
      ['dead', 'ls', 'flagg'],
      ['ls', 'flagg'],
    ])
      expect(await dq(command)).toMatchObject({
        code: 4,
        stderr: 'dq: there is no topic "flagg"; did you mean flag?\n',
      });
  });

  it('get, cancel: work on a job; exit with 4 for an unknown id', async () => {
    const sink = await startSink(status(500, {}, 'out of\u001b[2J order'));
    await dq(['topic', 'add', 'shown', '--callback', sink.url]);
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
    await dq(['push', 'shown', '{"a":1}', '--id', 'x', '--traceparent', `00-${trace}-00f067aa0ba902b7-01`]);
    await until('the first attempt is recorded', async () => {
      return (await daemon.api('GET', '/v1/topics/shown/jobs/x')).body.attempts.length === 1;
    });
    const shown = await dq(['get', 'shown', 'x']);
    expect(shown.code).toBe(0);
    expect(shown.stdout).toMatch(/^state +delayed$/m);
    expect(shown.stdout).toMatch(/^attempts +1 of 10$/m);
    expect(shown.stdout).toMatch(/^1 .* failed +500 +status +dq-notifier-\d +out of/m);
    expect(shown.stdout).toMatch(new RegExp(`^traceparent +00-${trace}-00f067aa0ba902b7-01$`, 'm'));
    expect(shown.stdout).toMatch(new RegExp(`^1 .* 00-${trace}-[0-9a-f]{16}-01$`, 'm'));
    expect(shown.stdout).not.toContain('\u001b');
    const reply = await fetch(`${daemon.url}/v1/topics/shown/jobs/x`);
    expect((await dq(['get', 'shown', 'x', '--json'])).stdout.trimEnd()).toBe((await reply.text()).trimEnd());

    expect(await dq(['cancel', 'shown', 'x'])).toMatchObject({ code: 0, stdout: '' });
    expect(await dq(['cancel', 'shown', 'x'])).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/the job has ended: cancelled at \S+Z/),
    });
    const ended = await dq(['get', 'shown', 'x']);
    expect(ended.code).toBe(0);
    expect(ended.stdout).toMatch(/^state +cancelled$/m);
    expect(ended.stdout).toMatch(/^ended at +\S+Z$/m);
    expect(ended.stdout).not.toMatch(/^body/m);
    expect(await dq(['get', 'shown', 'x', '--body'])).toMatchObject({ code: 1, stdout: '' });
    expect(await dq(['get', 'shown', 'none'])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('; dq ls --id none looks in every topic\n'),
    });
    for (const verb of ['cancel', 'run'])
      expect((await dq([verb, 'shown', 'none'])).stderr).toContain('; dq ls --id none looks in every topic');
    expect((await dq(['explain', '5002'])).stderr).toContain('dq ls --id 5002, if it is the id of a job\n');
    expect((await dq(['schedule', 'run', 'none'])).code).toBe(4);
    const wrong = await dq(['apply', 'topics.yaml']);
    expect(wrong.stderr).toContain('(Did you mean dq apply … --file topics.yaml?)');
    const local = await dq(['push', 'shown', '1', '--at', '2030-01-31 09:00'], {
      env: { TZ: 'Asia/Shanghai' },
      isProcess: true,
    });
    expect(local.stderr).toContain('2030-01-31T01:00:00.000Z');
    const refused = await dq(['dead', 'purge', 'shown', '--dead-reason', 'timeout']);
    expect(refused.stderr).toMatch(/^dq: --dead-reason: must be one of/);
    for (const verb of ['get', 'cancel', 'run'])
      expect(await dq([verb, '5002'])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('\nif 5002 is the id: dq ls --id 5002 finds its topic\n'),
      });
  });
});

it('dq explain: says that a held job is past its deadline', async () => {
  await dq(['topic', 'add', 'late', '--callback', silent]);
  await dq(['topic', 'pause', 'late']);
  await dq(['push', 'late', '1', '--id', 'x', '--deadline', '100ms']);
  const { deadline } = (await daemon.api('GET', '/v1/topics/late/jobs/x')).body;
  // The clock of a reply counts whole seconds.
  await until('a second later', () => Date.now() > Date.parse(deadline) + 1_000);
  const explained = await dq(['explain', 'late', 'x']);
  expect(explained.stdout).toMatch(
    new RegExp(`^deadline +its deadline ${deadline} has passed: it dies when the topic is resumed$`, 'm'),
  );
  // Its attempts have no time.
  await dq(['push', 'late', '1', '--id', 'y']);
  const held = (await dq(['explain', 'late', 'y'])).stdout;
  expect(held).toMatch(/^why +it is due; its topic is paused, so dq holds it$/m);
  expect(held).not.toMatch(/^next attempt/m);
});

describe('dq schedule', () => {
  it('shows times in its time zone, and topic rm names it', async () => {
    await dq(['topic', 'add', 'timed', '--callback', silent]);
    const add = (...args: string[]) => dq(['schedule', 'add', 'daily', '--topic', 'timed', ...args]);
    expect(await add()).toMatchObject({ code: 2, stderr: 'dq: give --cron or --every\n' });
    const added = await add('--cron', '0 9 * * *', '--timezone', 'Asia/Shanghai');
    expect(added.stderr).toMatch(/^dq: schedule daily: next at \S+T09:00:00\+08:00$/m);
    const shown = (await dq(['schedule', 'show', 'daily'])).stdout;
    expect(shown.match(/^\S+T09:00:00\+08:00$/gm)).toHaveLength(10);
    expect((await dq(['schedule', 'ls'])).stdout).toMatch(
      /^daily +timed .* Asia\/Shanghai +\S+T09:00:00\+08:00 +- +-$/m,
    );
    expect((await dq(['topic', 'rm', 'timed', '-y'])).stderr).toBe(
      'dq: deleted timed\ndq: schedules of it go on and fail: daily; dq schedule rm NAME removes one\n',
    );
  });
});

describe('dq run, reschedule, push --batch', () => {
  it('run, reschedule: move a job; exit with 1 in a wrong state, 4 when unknown', async () => {
    const sink = await startSink();
    await dq(['topic', 'add', 'moved', '--callback', sink.url, '--delay', '1h']);
    await dq(['push', 'moved', '1', '--id', 'a']);
    const moved = await dq(['reschedule', 'moved', 'a', '--at', '2030-01-01T00:00:00Z', '--json']);
    expect(moved.code, moved.stderr).toBe(0);
    expect(JSON.parse(moved.stdout)).toMatchObject({
      topic: 'moved',
      id: 'a',
      dueAt: '2030-01-01T00:00:00.000Z',
    });
    expect(moved.stderr).toBe('dq: delayed, due at 2030-01-01T00:00:00.000Z\n');
    for (const args of [[], ['--delay', '1h', '--at', '2030-01-01T00:00:00Z']])
      expect((await dq(['reschedule', 'moved', 'a', ...args])).code).toBe(2);
    expect(sink.arrivals).toHaveLength(0);
    expect(await dq(['run', 'moved', 'a'])).toMatchObject({ code: 0, stdout: '', stderr: 'dq: ready\n' });
    await until('it is delivered', () => sink.arrivals.length === 1);
    await until('it has ended', async () => (await dq(['run', 'moved', 'a'])).code === 4);
    const ended = await dq(['get', 'moved', 'a']);
    expect(ended.stdout).toMatch(/^attempts +1 of 10$/m);
    expect(ended.stdout).toMatch(/^1 +\S+Z +\d+ +delivered +200 +- +dq-notifier-\d/m);
    expect(ended.stderr).toBe('');
    const again = await dq(['topic', 'add', 'moved', '--callback', sink.url]);
    expect(again).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'dq: topic moved exists; change it with dq topic set\n',
    });
    expect((await dq(['reschedule', 'moved', 'a', '--delay', '1h'])).code).toBe(4);
  });

  it('edit: sends the body as it is, for the version that it has read or that is named', async () => {
    await dq(['topic', 'add', 'edited', '--callback', silent]);
    const read = async (id: string) => (await daemon.api('GET', `/v1/topics/edited/jobs/${id}`)).body;
    await dq(['push', 'edited', '{"n":1}', '--id', 'a', '--delay', '1h']);
    const { version } = await read('a');
    const body = '{"big":12345678901234567890,"x":1.0}';
    const args = [
      '--body',
      '-',
      '--max-attempts',
      '3',
      '--backoff',
      '15s,3m',
      '--at',
      '2030-01-01T00:00:00Z',
    ];
    expect(await dq(['edit', 'edited', 'a', ...args], { input: body })).toMatchObject({
      ...{ code: 0, stdout: '', stderr: 'dq: delayed, due at 2030-01-01T00:00:00.000Z\n' },
    });
    expect(await read('a')).toMatchObject({ body, maxAttempts: 3, backoff: ['15s', '3m'] });
    const stale = await dq(['edit', 'edited', 'a', '--delay', '2h', '--if-version', version]);
    expect(stale).toMatchObject({ code: 1, stdout: '' });
    expect(stale.stderr).toContain('another version');
    await dq(['push', 'edited', 'text', '--id', 'b', '--delay', '1h']);
    const text = await dq(['edit', 'edited', 'b', '--body', 'né "1"', '--new-webhook-id', '--json']);
    expect(JSON.parse(text.stdout)).toMatchObject({ topic: 'edited', id: 'b', state: 'delayed' });
    expect(await read('b')).toMatchObject({ body: 'né "1"', contentType: 'text/plain' });
    for (const [wrong, code, says] of [
      [['--body', '{"n":'], 2, '--body: not JSON'],
      [['--body', '1', '--type', 'text/plain', '--requeue'], 1, 'not dead'],
      [['--max-attempts', '0'], 1, '--max-attempts'],
      [[], 1, 'names nothing to change'],
    ] as const) {
      const refused = await dq(['edit', 'edited', 'a', ...wrong]);
      expect(refused.code, refused.stderr).toBe(code);
      expect(refused.stderr).toContain(says);
    }
    expect((await dq(['edit', 'edited', 'absent', '--body', '1'])).code).toBe(4);
  });

  it('run: says what holds the job', async () => {
    await dq(['topic', 'add', 'halted', '--callback', silent]);
    await dq(['push', 'halted', '1', '--id', 'a', '--delay', '1h']);
    await dq(['topic', 'pause', 'halted']);
    await until('the pause counts', async () =>
      (await dq(['run', 'halted', 'a'])).stderr.includes(
        'dq: ready\ndq: warning: its topic is paused, so dq holds it\n',
      ),
    );
  });

  it('push a file of jobs', async () => {
    await dq(['topic', 'add', 'file', '--callback', silent, '--delay', '1h']);
    const file = join(testDirectory(), 'jobs.ndjson');
    writeFileSync(
      file,
      '{"topic":"file","id":"a","body":1.0}\n{"topic":"file","id":"订","body":{"b" : 2}}\n{"topic":"no"}\n',
    );
    const run = await dq(['push', '--batch', `@${file}`]);
    expect(run).toMatchObject({ code: 5, stdout: 'a\n订\n' });
    expect(run.stderr).toContain('dq: line 3: body: is required');
    expect((await daemon.api('GET', '/v1/topics/file/jobs/a')).body.body).toBe('1.0');
    expect((await daemon.api('GET', `/v1/topics/file/jobs/${encodeURIComponent('订')}`)).body.body).toBe(
      '{"b" : 2}',
    );
  });
});

describe('dq dead', () => {
  it('dead: lists and requeues dead letters', async () => {
    const sink = await startSink(status(410, {}, '已取消'));
    await dq(['topic', 'add', 'gone', '--callback', sink.url, '--max-attempts', '1']);
    for (const id of ['a', 'b', 'c']) await dq(['push', 'gone', '1', '--id', id]);
    await untilDead('gone', 3);

    const listed = await dq(['dead', 'ls', '--topic', 'gone']);
    expect(listed.stdout.trimEnd().split('\n')).toHaveLength(4);
    expect(listed.stdout).toMatch(/^gone +a +\S+Z +gone +status +410 +1 +已取消$/m);
    expect((await dq(['explain', 'gone'])).stdout).toMatch(
      /^gone: receiver \S+ fails since \S+Z \(3 in a row\): status 410; 3 dead; try: dq topic test gone; /,
    );
    const two = await dq(['dead', 'ls', 'gone', '--limit', '2']);
    expect(two.stdout.trimEnd().split('\n')).toHaveLength(3);
    expect(two.stderr).toBe('dq: 2 of 3 dead letters are shown; raise --limit\n');
    expect((await dq(['dead', 'ls', 'gone', '--since', '24h', '--limit', '2'])).stderr).toBe(
      'dq: more than 2 dead letters match; raise --limit\n',
    );

    expect((await dq(['dead', 'requeue'])).code).toBe(2);
    expect((await dq(['dead', 'requeue', 'gone', '--topic', 'absent', '--all'])).code).toBe(2);
    expect((await dq(['dead', 'requeue', 'absent', '--all'])).code).toBe(4);
    expect((await dq(['dead', 'ls', 'absent'])).code).toBe(4);
    sink.answer(status(200, {}, '{"code":200}'));
    const some = await dq(['dead', 'requeue', '--topic', 'gone', '--id', 'a', '--id', 'none']);
    expect(some.code, some.stderr).toBe(5);
    expect((await dq(['dead', 'requeue', '--topic', 'gone', '--id', 'none'])).code).toBe(4);
    const rest = await dq(['dead', 'requeue', 'gone', '--all', '--json']);
    expect(rest.code).toBe(0);
    expect(JSON.parse(rest.stdout)).toEqual({ requeued: 2, more: false });
    await until('all are delivered', () => sink.arrivals.length === 6);
    expect((await dq(['dead', 'requeue', 'gone', '--all'])).code).toBe(0);
  });

  it('dead ls: shows why the last attempt got no reply', async () => {
    await dq(['topic', 'add', 'refused', '--callback', silent, '--max-attempts', '1']);
    await dq(['push', 'refused', '1', '--id', 'a']);
    await untilDead('refused', 1);
    expect((await dq(['dead', 'ls', 'refused'])).stdout).toMatch(
      /^refused +a .* connect +- +1 +ECONNREFUSED 127\.0\.0\.1:\d+$/m,
    );
    expect((await dq(['alerts'])).stdout).toMatch(/refused +a +1 .*ECONNREFUSED/);
    expect((await dq(['get', 'refused', 'a'])).stdout).toMatch(/^attempts +1 of 1$/m);
    await dq(['topic', 'set', 'refused', '--max-attempts', '9']);
    await until('the new setting counts', async () =>
      /^attempts +1, all when it died; now 9$/m.test((await dq(['get', 'refused', 'a'])).stdout),
    );
  });

  it('dead requeue and purge: take the filters of dead ls, count only, and move at a pace', async () => {
    const sink = await startSink(status(410));
    await dq(['topic', 'add', 'chosen', '--callback', sink.url, '--max-attempts', '1']);
    for (const [code, ids] of [
      [410, ['a', 'b']],
      [500, ['c', 'd', 'e']],
    ] as const) {
      sink.answer(status(code));
      const before = sink.arrivals.length;
      for (const id of ids) await dq(['push', 'chosen', '1', '--id', id]);
      await until('all were called', () => sink.arrivals.length === before + ids.length);
    }
    const dead = async () =>
      (await daemon.api('GET', '/v1/dead?topic=chosen')).body.items
        .map(({ id }: { id: string }) => id)
        .sort();
    await until('all are dead', async () => (await dead()).length === 5);

    const counted = await dq(['dead', 'requeue', 'chosen', '--status', '5xx', '--dry-run']);
    expect(counted.stderr).toMatch(/\ndq: 3 jobs would be requeued\n$/);
    const { stderr } = await dq(['dead', 'purge', 'chosen', '--since', 'today', '--dry-run']);
    expect(stderr).toMatch(/\ndq: 5 jobs would be purged\n$/);
    expect(await rowsOf(['dead', 'ls', 'chosen', '--until', '24h'])).toHaveLength(1);
    expect(await dead()).toEqual(['a', 'b', 'c', 'd', 'e']);

    expect((await dq(['dead', 'purge', 'chosen', '--dead-reason', 'gone'])).code).toBe(1);
    const purged = await dq(['dead', 'purge', 'chosen', '--dead-reason', 'gone', '-y']);
    expect(purged.stderr).toMatch(/\ndq: 2 purged, 0 left as they are, 0 failed\n$/);
    expect(await dead()).toEqual(['c', 'd', 'e']);
    sink.answer(status(200));
    const again = ['dead', 'requeue', 'chosen', '--last-reason', 'status', '--spread', '1s'];
    expect((await dq(again)).stderr).toMatch(/\ndq: 3 requeued, 0 left as they are, 0 failed\n$/);
    await until('all are called again', () => sink.arrivals.length === 8);

    for (const [args, says] of [
      [['--spread', 'soon'], 'dq: --spread: '],
      [['--rate', '0'], 'dq: --rate must be '],
      [['--status', 'bad'], 'dq: --status'],
    ] as const)
      expect((await dq(['dead', 'requeue', 'chosen', ...args])).stderr.slice(0, says.length)).toBe(says);
  });

  it('removes dead letters for good', async () => {
    const sink = await startSink(status(410, {}, ''));
    await dq(['topic', 'add', 'purged', '--callback', sink.url]);
    for (const id of ['a', 'b', 'c']) await dq(['push', 'purged', '1', '--id', id]);
    await untilDead('purged', 3);
    const hint =
      'dq: smtp.url is not set, so no mail goes out, and alerts.hooks names no hook; see dq help dead-letters-alerts\n';
    const listed = await dq(['alerts']);
    expect(listed.stdout).toMatch(/ purged .* (owed|claimed|nobody) /); // check-words: data
    expect([listed.stderr, (await dq(['alerts', '--json'])).stderr]).toEqual([hint, '']);
    expect((await dq(['dead', 'purge', '--topic', 'purged'])).code).toBe(1);
    const one = await dq(['dead', 'purge', '--topic', 'purged', '--id', 'a', '-y', '--json']);
    expect(JSON.parse(one.stdout)).toEqual({ purged: 1, more: false });
    expect((await dq(['dead', 'purge', '--topic', 'purged', '--all', '-y'])).stderr).toBe('dq: 2 purged\n');
    expect((await daemon.api('GET', '/v1/dead?topic=purged')).body.items).toEqual([]);
  });
});

describe('dq and the daemon', () => {
  it('--url: works without the data directory; a wrong token exits with 1', async () => {
    expect((await runDq(['topic', 'ls', '--url', daemon.url])).code).toBe(0);
    const rejected = await runDq(['topic', 'ls', '--url', daemon.url, '--token', 'dqk_wrong']);
    expect(rejected.code).toBe(1);
    expect(rejected.stderr).toContain('DQ_TOKEN');
  });

  it('shard ls: says that the embedded store has no shards', async () => {
    const run = await dq(['shard', 'ls', '--json']);
    expect([run.code, run.stderr]).toEqual([1, expect.stringContaining('embedded store')]);
  });

  it('prints no colours into a pipe, also where CI is set', async () => {
    await dq(['topic', 'add', 'coloured', '--callback', silent]);
    expect((await dq(['topic', 'ls'], { env: { CI: 'true' } })).stdout).not.toContain('\u001b');
  });
});

describe('dq on topics, jobs and the data of a daemon', () => {
  it('registers, shows, changes, holds and deletes a topic', async () => {
    const added = await dq([
      ...['topic', 'add', 'whole.close', '--callback', 'http://127.0.0.1:9000/close', '--delay', '30m'],
      ...['--rule', '{res.code}!=200', '--timeout', '5s', '--max-attempts', '4', '--backoff', '15s,3m'],
      ...['--priority', 'high', '--concurrency', '9', '--empty-reply', 'accept', '--ok-status', '2xx,404'],
      ...['--header', 'X-Key: abc', '--owner', 'trade', '--title', '关闭未支付订单'],
    ]);
    expect(added.code, added.stderr).toBe(0);
    expect(added.stdout).toMatch(/^whsec_[A-Za-z0-9+/=]+\n$/);
    const read = async () => (await daemon.api('GET', '/v1/topics/whole.close')).body;
    const body = await read();
    expect(body).toMatchObject({
      ...{ callbackUrl: 'http://127.0.0.1:9000/close', delay: '30m', retryIf: '{res.code}!=200' },
      ...{ timeout: '5s', maxAttempts: 4, backoff: ['15s', '3m'], priority: 'high', concurrency: 9 },
      ...{ emptyReply: 'accept', okStatus: ['2xx', '404'], headers: { 'x-key': 'abc' }, owner: 'trade' },
      ...{ title: '关闭未支付订单', state: 'active' },
    });
    expect(JSON.stringify(body)).not.toContain(added.stdout.trim());

    const shown = (await dq(['topic', 'get', 'whole.close'])).stdout;
    expect(shown).not.toContain('\n\n\n');
    const rows = shown.trimEnd().split('\n');
    const heads = rows.map((row) => row.split(/ {2,}/)[0]).filter((head) => head !== '');
    expect(new Set(heads).size).toBe(heads.length);
    // In the groups of the help, without the fields that another delivery uses.
    expect(heads.indexOf('timeout')).toBeGreaterThan(heads.indexOf('Call'));
    expect(heads.indexOf('timeout')).toBeLessThan(heads.indexOf('Verdict'));
    expect(heads).not.toContain('lease');
    const help = (await dq(['topic', 'set', '--help'])).stdout;
    expect(help).toMatch(/^Retries:\n +--max-attempts.*\n +--backoff/m);
    const table = await rowsOf(['topic', 'ls', '--search', 'whole.close']);
    expect(table).toHaveLength(2);
    expect(table[0]).toMatch(/^TOPIC +STATE +WAITING +LATE +DEAD +DELAY +PRIORITY +CALLBACK +OWNER +TITLE$/);
    expect((await dq(['topic', 'get', 'whole.close'])).stdout).toMatch(/^backoff +15s, 3m$/m);

    expect((await dq(['topic', 'set', 'whole.close', '--rule', '', '--delay', '1m'])).code).toBe(0);
    expect(await read()).toMatchObject({ retryIf: '', delay: '1m' });
    expect((await dq(['topic', 'set', 'whole.close'])).code).toBe(2);
    for (const [verb, state] of [
      ['pause', 'paused'],
      ['offline', 'offline'],
      ['resume', 'active'],
    ] as const) {
      expect((await dq(['topic', verb, 'whole.close'])).code).toBe(0);
      expect((await read()).state).toBe(state);
    }
    const rejected = await dq(['topic', 'rm', 'whole.close']);
    expect(rejected).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('-y') });
    expect((await read()).state).toBe('active');
    expect((await dq(['topic', 'rm', 'whole.close', '-y'])).code).toBe(0);
    expect((await dq(['topic', 'get', 'whole.close'])).code).toBe(4);
  });

  it('ls: filters by topic, state, id, its beginning and a part of the body', async () => {
    for (const topic of ['listed', 'other'])
      await dq(['topic', 'add', topic, '--callback', silent, '--delay', '1h']);
    const lines = Array.from(
      { length: 150 },
      (_, n) => `{"topic":"listed","id":"listed-${n}","body":{"listed":${n}}}`,
    );
    await dq(['push', '--batch', '-'], { input: lines.join('\n') });
    await dq(['push', 'other', '1', '--id', '订单']);
    const table = await rowsOf(['ls', 'other']);
    expect(table[0]).toMatch(/^TOPIC +ID +STATE +DUE AT +ATTEMPTS +CREATED AT +ENDED AT$/);
    expect(table[1]).toMatch(/^other +订单 +delayed +\S+Z +0 +\S+Z +-$/);
    const some = await dq(['ls']);
    expect(some.stdout.trimEnd().split('\n')).toHaveLength(101);
    expect(some.stderr).toMatch(/^dq: 100 of \d{3,} jobs are shown; raise --limit\n$/);
    const few = await dq(['ls', 'listed', '--state', 'delayed', '--limit', '3']);
    expect(few.stderr).toBe('dq: 3 of 150 jobs are shown; raise --limit\n');
    expect((await dq(['ls', 'listed', '--limit', '150'])).stderr).toBe('');
    // A line for each page: other tests of this daemon push jobs, too.
    const idsOf = async (...flags: string[]) => {
      const pages = await rowsOf(['ls', ...flags, '--json']);
      return pages.flatMap((page) => JSON.parse(page).items.map(({ id }: { id: string }) => id));
    };
    expect(await idsOf('listed', '--limit', '1000')).toHaveLength(150);
    await dq(['cancel', 'other', '订单']);
    expect((await dq(['ls', 'other', '--state', 'cancelled'])).stdout).toContain('cancelled');
    expect(await idsOf('--id', 'listed-7')).toEqual(['listed-7']);
    expect(await idsOf('--id-prefix', 'listed-14', '--body', '"listed":141}')).toEqual(['listed-141']);
    expect(await idsOf('--body', '"listed":149}')).toEqual(['listed-149']);
    expect(await rowsOf(['ls', 'listed', '--id-prefix', 'listed-14'])).toHaveLength(12);
    expect((await dq(['ls', '--state', 'nonsense'])).code).toBe(1);
    expect((await dq(['ls', '--limit', '0'])).code).toBe(2);
  });

  it('ls: dead letters come after the jobs that wait', async () => {
    const sink = await startSink(status(410));
    await dq(['topic', 'add', 'ordered', '--callback', sink.url, '--max-attempts', '1']);
    await dq(['push', 'ordered', '1', '--id', 'died']);
    await untilDead('ordered', 1);
    await dq(['push', 'ordered', '1', '--id', 'later', '--delay', '2h']);
    await dq(['push', 'ordered', '1', '--id', 'sooner', '--delay', '1h']);
    const ids = async (...args: string[]) =>
      (await dq(['ls', 'ordered', ...args])).stdout
        .trimEnd()
        .split('\n')
        .slice(1)
        .map((line) => line.split(/ +/)[1]);
    expect(await ids()).toEqual(['sooner', 'later', 'died']);
    expect(await ids('--limit', '2')).toEqual(['sooner', 'later']);
  });

  it('fsck finds a sound store; a backup and the key start as it was; after a kill: exit 3', async () => {
    const checked = await dq(['fsck', '--json']);
    expect(checked).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^dq: \d+ jobs, no problem found\n$/),
    });
    expect(JSON.parse(checked.stdout)).toMatchObject({ state: 'done', problems: [] });
    await dq(['topic', 'add', 'backed', '--callback', silent, '--delay', '1h']);
    await dq(['push', 'backed', '{"a":1}', '--id', 'x']);
    const cwd = testDirectory();
    const made = await dq(['backup', 'data'], { cwd });
    expect(made).toMatchObject({ code: 0, stdout: `${join(cwd, 'data')}\n` });
    expect(await dq(['backup', 'data'], { cwd })).toMatchObject({
      ...{ code: 1, stderr: expect.stringContaining('already exists') },
    });
    await daemon.api('DELETE', '/v1/topics/backed/jobs/x');

    copyFileSync(join(daemon.dataDir, 'secret.key'), join(cwd, 'data/secret.key'));
    // The copy holds jobs of other tests, whose receivers it must not call.
    const restored = await startDaemon({ directory: cwd, args: ['--no-deliveries'] });
    expect((await restored.api('GET', '/v1/topics/backed/jobs/x')).body).toMatchObject({
      ...{ state: 'delayed', body: '{"a":1}' },
    });
    const workers = restored.workers().map(({ pid }) => pid);
    restored.child.kill('SIGKILL');
    // A request to a worker that is ending may fail while another one still listens.
    await until('its workers have ended', () => !workers.some(isAlive));
    expect((await commandsOf(restored)(['topic', 'ls'])).code).toBe(3);
  });
});
