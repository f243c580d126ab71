// Tests dq export and dq apply on a real daemon.

import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ScheduleInput } from '../../src/contract/api/schedule.ts';
import { topicFields } from '../../src/core/topic/fields.ts';
import { apiName } from '../../src/core/topic/settings.ts';
import { startDaemon } from '../support/daemon.ts';
import { listening } from '../support/listening.ts';
import { removeAll } from '../support/producing.ts';
import { runDq, runDqOnTerminal } from '../support/run-dq.ts';

const callbackUrl = 'http://127.0.0.1:9000/close';
const secret = (fill: number) => `whsec_${Buffer.alloc(32, fill).toString('base64')}`;

describe('dq export, dq apply', async () => {
  const daemon = await startDaemon({
    scope: 'file',
    config: {
      brokers: ['main=stomp+stomp://u:p@127.0.0.1:2'],
      alerts: { hooks: ['ops=slack+http://127.0.0.1:9/x'] },
    },
  });
  const env = { DQ_DATA_DIR: daemon.dataDir };
  const path = join(daemon.directory, 'dq-topics.yaml');
  const exported = async (...args: string[]) => (await runDq(['export', ...args], { env })).stdout;
  /** dq apply of this file */
  const apply = (text: string, args: readonly string[] = ['-y'], more: Record<string, string> = {}) => {
    writeFileSync(path, text);
    return runDq(['apply', '-f', 'dq-topics.yaml', ...args], {
      env: { ...env, ...more },
      cwd: daemon.directory,
    });
  };
  const get = async (what: string) => (await daemon.api('GET', `/v1/${what}`)).body;
  const add = async (topic: string, json: object = {}) =>
    expect((await daemon.api('POST', '/v1/topics', { topic, callbackUrl, ...json })).status).toBe(201);
  const names = async (kind: string) =>
    (await get(kind)).items.map(
      ({ name, topic }: { name?: string; topic: string }) => name ?? topic,
    ) as string[];
  beforeEach(() => removeAll(daemon));

  it('a file that was exported brings every field back, and is equal then', async () => {
    const people = { title: 'Close: "unpaid" #1', owner: 'shop', alertEmails: ['ops@example.org'] };
    await add('a.pull', { delivery: 'pull', callbackUrl: undefined, lease: '5m', backoff: ['0s', '1m'] });
    const target = { broker: 'main', to: 'orders', key: 'created' };
    await add('a.mq', { delivery: 'mq', callbackUrl: undefined, target, state: 'offline' });
    await add('a.push', {
      ...people,
      ...{
        method: 'PUT',
        format: 'form',
        headers: { 'x-a': 'b', 'x.dotted': 'c' },
        delay: '90m',
        timeout: '5s',
      },
      ...{ retryIf: '{res.code}!="0"', okStatus: ['2xx', '404'], emptyReply: 'accept', maxAttempts: 3 },
      ...{ backoff: { type: 'exponential', base: '10s', factor: 1.5, cap: '1h' }, jitter: 0.25 },
      ...{ priority: 'high', concurrency: 8, rate: 5, alertHooks: ['ops'], dangerouslySkipTlsVerify: true },
      ...{ deadIf: '{status}==400', againIf: '{res.state}=="pending"', againAfter: '{res.retry_in}s' },
      ...{ onDone: 'a.pull', onDead: 'a.mq', idempotency: '10m' },
      state: 'paused',
    });
    for (const json of [
      {
        name: 's.cron',
        topic: 'a.push',
        cron: '0 9 * * 1-5',
        timezone: 'Asia/Shanghai',
        body: { n: [1, '2', null] },
      },
      { name: 's.every', topic: 'a.pull', every: '90m', missed: 'last', paused: true },
      { name: 's.text', topic: 'a.mq', every: '1d', contentType: 'text/plain', body: 'a: b\n# c' },
      { name: 's.null', topic: 'a.mq', every: '1d', body: null },
    ])
      expect((await daemon.api('POST', '/v1/schedules', json)).status).toBe(201);
    const stable = (items: readonly object[]) =>
      items.map((one) => ({
        ...one,
        ...{ revision: 0, createdAt: 0, updatedAt: 0, secretDigest: 0, nextAt: 0 },
      }));
    const before = [stable((await get('topics')).items), stable((await get('schedules')).items)];
    const text = await exported();
    const file = parse(text);
    const written = (part: string) =>
      new Set(Object.values<object>(file[part]).flatMap((one) => Object.keys(one)));
    expect(written('topics')).toEqual(new Set([...Object.keys(topicFields).map(apiName), 'state']));
    const { name: _, ...members } = ScheduleInput.properties;
    expect(written('schedules')).toEqual(new Set(Object.keys(members)));
    expect(text).not.toContain('whsec_');

    expect(await apply(text, ['--check'])).toMatchObject({
      code: 0,
      stdout: '',
      stderr: 'dq: no difference\n',
    });
    const json = await exported('--json');
    expect(await apply(json, ['--check'])).toMatchObject({ code: 0, stdout: '' });
    await removeAll(daemon);
    const filled = text.replace("x-a: '***'", 'x-a: b').replace('x-a: "***"', 'x-a: b');
    const again = await apply(filled.replace(/x\.dotted: .*/, `x.dotted: \${DOTTED}`), ['-y'], {
      DOTTED: 'c',
    });
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('+ a.mq\n') });
    expect([stable((await get('topics')).items), stable((await get('schedules')).items)]).toEqual(before);
    expect(await apply(text, ['--check'])).toMatchObject({ code: 0, stdout: '' });
  });

  it('shows the differences, and a member that the file lacks takes its default', async () => {
    await add('a', { retryIf: '{res.code}!=0', concurrency: 8, headers: { 'x-a': 'very-secret' } });
    await add('old');
    await daemon.api('POST', '/v1/schedules', {
      name: 'daily',
      topic: 'a',
      cron: '0 9 * * *',
      missed: 'last',
    });
    const text = `scope: ["*"]
topics: { a: { callbackUrl: "${callbackUrl}", rate: 3, headers: { x-a: other } }, new: { delivery: pull } }
schedules: { daily: { topic: a, every: 10m, timezone: Asia/Shanghai, body: { n: 1 } } }
`;
    const shown = [
      '~ a   headers.x-a: "***" → "***"   retryIf: "{res.code}!=0" → ""   concurrency: 8 → 64   rate: 0 → 3',
      '+ new',
      expect.stringMatching(
        /^~ schedule daily {3}cron: "0 9 \* \* \*" → null {3}every: null → "10m" {3}timezone: .* body: "" → "{\\"n\\":1}"/,
      ),
      '- old',
    ];
    for (const [flag, code] of [
      ['--dry-run', 0],
      ['--check', 1],
    ] as const) {
      const run = await apply(text, ['--prune', flag]);
      expect(run.code).toBe(code);
      expect(run.stdout.trimEnd().split('\n')).toEqual(shown);
      expect(run.stdout).not.toContain('very-secret');
    }
    expect(await apply(text, ['--prune'])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/no terminal.*-y agrees/),
    });
    expect(await names('topics')).toEqual(['a', 'old']);
    expect(await apply(text, ['--prune', '-y'])).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^dq: 4 of 4 changes are made/),
    });
    expect(await names('topics')).toEqual(['a', 'new']);
    expect(await get('topics/a')).toMatchObject({
      retryIf: '',
      concurrency: 64,
      rate: 3,
      headers: { 'x-a': 'other' },
    });
    expect(await get('schedules/daily')).toMatchObject({
      cron: null,
      every: '10m',
      missed: 'skip',
      body: '{"n":1}',
    });
    expect(await apply(text, ['--prune', '--check'])).toMatchObject({ code: 0 });
  });

  it('asks on a terminal', async () => {
    writeFileSync(path, 'topics: { a: { delivery: pull } }\n');
    const args = ['apply', '-f', path, '--data-dir', daemon.dataDir];
    expect(await runDqOnTerminal(args, 'n\n')).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/\+.* a[\s\S]*Apply\? \[y\/N\]/),
    });
    expect(await names('topics')).toEqual([]);
    expect((await runDqOnTerminal(args, 'y\n')).code).toBe(0);
    expect(await names('topics')).toEqual(['a']);
  });

  it('prune removes only inside the scope, which export writes', async () => {
    for (const topic of ['order.a', 'order.b', 'mail']) await add(topic);
    for (const [name, topic] of [
      ['s1', 'order.b'],
      ['s2', 'mail'],
    ])
      await daemon.api('POST', '/v1/schedules', { name, topic, every: '1h' });
    const text = await exported('--scope', 'order.*');
    expect(parse(text)).toMatchObject({ scope: ['order.*'], topics: { 'order.a': {}, 'order.b': {} } });
    expect(Object.keys(parse(text).schedules)).toEqual(['s1']);
    const without = `scope: ['order.*']\ntopics: { order.a: { callbackUrl: "${callbackUrl}" } }\nschedules: {}\n`;
    expect(await apply(without, ['--check'])).toMatchObject({ code: 0 });
    expect(await apply(without, ['--prune', '-y'])).toMatchObject({
      code: 0,
      stdout: '- order.b\n- schedule s1\n',
    });
    expect(await names('topics')).toEqual(['mail', 'order.a']);
    expect(await names('schedules')).toEqual(['s2']);
    expect(await apply('topics: {}\n', ['--prune', '-y'])).toMatchObject({
      code: 2,
      stderr: 'dq: --prune: the file has no scope\n',
    });
    for (const [cut, absent] of [
      [`scope: ['*']\n`, 'topics'],
      [`scope: ['*']\ntopics:\nschedules: {}\n`, 'topics'],
      [`scope: ['*']\ntopics: {}\n`, 'schedules'],
    ])
      expect(await apply(cut as string, ['--prune', '-y'])).toMatchObject({
        code: 2,
        stderr: `dq: --prune: the file has no ${absent}; for none write ${absent}: {}\n`,
      });
    expect(await names('topics')).toEqual(['mail', 'order.a']);
  });

  it('the topics of onDone and onDead are checked before the first change, as they will be', async () => {
    for (const topic of ['a', 'b', 'old']) await add(topic);
    await add('c', { onDone: 'old' });
    await daemon.api('PATCH', '/v1/topics/b', { onDone: 'a' });
    const file = (topics: object) =>
      JSON.stringify({ scope: ['*'], topics, schedules: {} }).replaceAll('"url"', `"${callbackUrl}"`);
    const url = { callbackUrl: 'url' };
    const wrong = { a: { ...url, onDone: 'b' }, b: { ...url, onDone: 'a' }, d: { ...url, onDead: 'e' } };
    const run = await apply(file({ ...wrong, c: { ...url, onDone: 'old' } }), ['--dry-run', '--prune']);
    expect(run.code).toBe(2);
    for (const problem of [
      'a → b → a is a circle; remove one step',
      'onDead: topic e is not registered',
      'onDone: --prune would remove old; name another topic, or keep it',
    ])
      expect(run.stderr).toContain(problem);
    // A circle of stored and added steps that is gone at the end of the plan.
    const turned = { a: { ...url, onDone: 'b' }, b: url, c: { ...url, onDone: 'd' }, d: url };
    expect(await apply(file(turned), ['-y', '--prune'])).toMatchObject({ code: 0 });
    expect([(await get('topics/a')).onDone, (await get('topics/c')).onDone]).toEqual(['b', 'd']);
  });

  it('a topic with jobs stays, and the rest is done', async () => {
    for (const topic of ['a', 'b']) await add(topic);
    await daemon.api('POST', '/v1/topics/a/jobs?delay=1h', {});
    const run = await apply('scope: ["*"]\ntopics: {}\nschedules: {}\n', ['--prune', '-y']);
    expect(run).toMatchObject({ code: 5, stdout: '- a\n- b\n' });
    expect(run.stderr).toBe(
      'dq: a has 1 jobs, dead letters included, and stays\ndq: 1 of 2 changes are made; topics with jobs that stay: 1\n',
    );
    expect(await get('topics/a')).toMatchObject({ state: 'active' });
  });

  it('the schedules of a topic that stays stay with it', async () => {
    for (const topic of ['a', 'b', 'c']) await add(topic);
    for (const [name, topic] of [
      ['kept', 'a'],
      ['gone', 'b'],
      ['old', 'c'],
    ])
      await daemon.api('POST', '/v1/schedules', { name, topic, every: '1h' });
    await daemon.api('POST', '/v1/topics/a/jobs?delay=1h', {});
    const file = `scope: ["*"]\ntopics: { c: { callbackUrl: "${callbackUrl}" } }\nschedules: {}\n`;
    expect(await apply(file, ['--prune', '-y'])).toMatchObject({
      code: 5,
      stderr:
        'dq: a has 1 jobs, dead letters included, and stays\ndq: schedule kept stays with its topic a\ndq: 3 of 5 changes are made; topics with jobs that stay: 1\n',
    });
    expect(await names('topics')).toEqual(['a', 'c']);
    expect(await names('schedules')).toEqual(['kept']);
  });

  it('another delivery keeps the settings that the file names', async () => {
    await add('a', { format: 'message', timeout: '5s' });
    const file =
      'topics: { a: { delivery: mq, target: { broker: main, to: orders }, format: message, timeout: 5s } }\n';
    expect(await apply(file)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^~ a {3}callbackUrl: .* delivery: "push" → "mq" {3}target: /),
    });
    expect(await get('topics/a')).toMatchObject({ delivery: 'mq', format: 'message', timeout: '5s' });
    expect((await apply(file, ['--check'])).code).toBe(0);
  });

  it('a secret that is equal makes no rotation, another one does', async () => {
    const text = `topics: { a: { callbackUrl: "${callbackUrl}", secret: "\${A_SECRET}" } }\n`;
    expect((await apply(text, ['-y'], { A_SECRET: secret(1) })).stderr).not.toContain('has a secret');
    const { revision } = await get('topics/a');
    expect(await apply(text, ['-y'], { A_SECRET: secret(1) })).toMatchObject({ code: 0, stdout: '' });
    expect(await get('topics/a')).toMatchObject({ revision });
    const rotated = await apply(text, ['-y'], { A_SECRET: secret(2) });
    expect(rotated).toMatchObject({ code: 0, stdout: '~ a   secret: "***" → "***"\n' });
    expect(rotated.stderr).not.toContain('whsec_');
    expect((await apply(text, ['--check'], { A_SECRET: secret(2) })).code).toBe(0);
    // A release that is taken back has the secret that still signs.
    expect((await apply(text, ['-y'], { A_SECRET: secret(1) })).code).toBe(0);
    expect((await apply(text, ['--check'], { A_SECRET: secret(1) })).code).toBe(0);
    const made = await apply(`topics: { b: { callbackUrl: "${callbackUrl}" } }\n`);
    expect(made.stderr).toMatch(/^dq: b has a secret that dq made; dq topic secret b makes another one/);
    expect(made.stdout + made.stderr).not.toContain('whsec_');
  });

  it('shows no value that comes from a variable', async () => {
    await add('a');
    const text = `topics: { a: { callbackUrl: "\${BASE}?key=1", title: new } }\n`;
    const run = await apply(text, ['--dry-run'], { BASE: 'http://127.0.0.1:9/very-secret' });
    expect(run).toMatchObject({ code: 0, stdout: '~ a   callbackUrl: "***" → "***"   title: "" → "new"\n' });
  });

  /** Address of a proxy that makes a change of another operator before it forwards a request, such as
   *  `PATCH /v1/topics/b`. */
  const withChanges = async (changes: Readonly<Record<string, () => Promise<unknown>>>) => {
    const between = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      await changes[`${request.method} ${request.url}`]?.();
      const { host: _, connection: __, ...headers } = request.headers as Record<string, string>;
      const body = chunks.length === 0 ? null : Buffer.concat(chunks);
      const reply = await fetch(daemon.url + request.url, { method: request.method ?? '', headers, body });
      response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type') ?? '' });
      response.end(await reply.text());
    });
    return `http://127.0.0.1:${await listening(between)}`;
  };

  it('a change between the look and the write is not overwritten', async () => {
    for (const topic of ['a', 'b']) await add(topic, { title: 'old' });
    await daemon.api('POST', '/v1/schedules', { name: 's', topic: 'a', every: '1h' });
    const url = await withChanges({
      'PATCH /v1/topics/b': () => daemon.api('PATCH', '/v1/topics/b', { title: 'of another' }),
      'PATCH /v1/schedules/s': () => daemon.api('PATCH', '/v1/schedules/s', { every: '3h' }),
    });
    const topics = `topics: { a: { callbackUrl: "${callbackUrl}" }, b: { callbackUrl: "${callbackUrl}" } }\n`;
    expect(await apply(topics, ['-y', '--url', url])).toMatchObject({
      code: 5,
      stderr: 'dq: b was changed meanwhile; run dq apply again (1 of 2 changes are made)\n',
    });
    expect(await get('topics/b')).toMatchObject({ title: 'of another' });
    expect(await apply('schedules: { s: { topic: a, every: 2h } }\n', ['-y', '--url', url])).toMatchObject({
      code: 1,
      stderr: 'dq: schedule s was changed meanwhile; run dq apply again\n',
    });
    expect(await get('schedules/s')).toMatchObject({ every: '3h' });
  });

  it('a change between the look and a removal or rotation keeps what was changed', async () => {
    for (const topic of ['order.a', 'mail.a']) await add(topic);
    await daemon.api('POST', '/v1/schedules', { name: 's', topic: 'order.a', every: '1h' });
    const title = (topic: string) => () =>
      daemon.api('PATCH', `/v1/topics/${topic}`, { title: 'of another' });
    const url = await withChanges({
      'DELETE /v1/schedules/s': () => daemon.api('PATCH', '/v1/schedules/s', { topic: 'mail.a' }),
      'DELETE /v1/topics/order.a': title('order.a'),
      'POST /v1/topics/order.a/secret': title('order.a'),
    });
    const text = (topic: string) => `scope: ['order.*']\ntopics: { ${topic} }\nschedules: {}\n`;
    const outdated = (what: string) => ({
      code: 1,
      stderr: `dq: ${what} was changed meanwhile; run dq apply again\n`,
    });
    const kept = text(`order.a: { callbackUrl: "${callbackUrl}" }`);
    expect(await apply(kept, ['--prune', '-y', '--url', url])).toMatchObject(outdated('schedule s'));
    expect(await get('schedules/s')).toMatchObject({ topic: 'mail.a' });
    const rotated = text(`order.a: { callbackUrl: "${callbackUrl}", secret: "${secret(3)}" }`);
    const { secretDigest } = await get('topics/order.a');
    expect(await apply(rotated, ['-y', '--url', url])).toMatchObject(outdated('order.a'));
    expect(await get('topics/order.a')).toMatchObject({ secretDigest });
    expect(await apply(text(''), ['--prune', '-y', '--url', url])).toMatchObject(outdated('order.a'));
    expect(await names('topics')).toEqual(['mail.a', 'order.a']);
  });

  it('a change of the settings and the secret of a topic is made whole', async () => {
    await add('a');
    const text = `topics: { a: { callbackUrl: "${callbackUrl}", title: new, secret: "${secret(4)}" } }\n`;
    expect((await apply(text)).code).toBe(0);
    expect((await apply(text, ['--check'])).code).toBe(0);
  });

  it.each([
    [
      'a masked header without a value',
      `topics:\n  a: { callbackUrl: "${callbackUrl}", headers: { x-b: "***" } }`,
      '2:63',
      `headers.x-b: *** has no stored value here; write \${NAME}`,
    ],
    [
      'an unknown topic of a schedule',
      'schedules:\n  s: { topic: gone, every: 1h }',
      '2:8',
      'topic: there is no topic gone',
    ],
    [
      'a body that the topic of a schedule does not take',
      `topics:\n  a: { callbackUrl: "${callbackUrl}", format: form }\nschedules:\n  s: { topic: a, every: 1h, body: [1] }`,
      '4:29',
      'body: must be a JSON object such as {"order":4711}: topic a has format "form"',
    ],
    [
      'an unknown hook',
      'topics:\n  a: { delivery: pull, alertHooks: [nope] }',
      '2:37',
      'alertHooks[0]: alerts.hooks has no "nope"',
    ],
  ])('rejects %s with its place, and changes nothing', async (_what, text, place, message) => {
    const run = await apply(text);
    expect(run).toMatchObject({ code: 2, stdout: '' });
    expect(run.stderr).toContain(`\ndq-topics.yaml:${place}  ${message}`);
    expect(await names('topics')).toEqual([]);
  });

  it('needs the scope admin', async () => {
    await add('a');
    const { body } = await daemon.api('POST', '/v1/tokens', { name: 'reader', scopes: ['read'] });
    const run = await apply('topics: { a: { delivery: pull } }\n', [
      '-y',
      '--url',
      daemon.url,
      '--token',
      body.token,
    ]);
    expect(run).toMatchObject({ code: 1, stderr: 'dq: token: lacks the scope admin; use one that has it\n' });
    await daemon.api('DELETE', '/v1/tokens/reader');
  });
});
