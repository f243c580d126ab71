// Tests what the commands say about topics in trouble: dq explain, dq status, dq topic ls, dq topic get, and
// dq dead groups.
import { describe, expect, it } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { commandsOf } from '../support/run-dq.ts';
import { type Sink, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const daemon = await startDaemon({ scope: 'file', config: { retry: { unit: '1h' } } });
const dq = commandsOf(daemon);

const output = async (...args: string[]): Promise<string> => {
  const run = await dq(args);
  expect(run.code, run.stderr).toBe(0);
  return run.stdout;
};
/** The first line says all that a person needs at first. */
const first = async (...args: string[]): Promise<string> => (await output(...args)).split('\n')[0] ?? '';

async function add(topic: string, callback: string, ...flags: string[]): Promise<void> {
  await output('topic', 'add', topic, '--callback', callback, ...flags);
}

async function push(topic: string, ids: readonly string[], ...flags: string[]): Promise<void> {
  for (const id of ids) await output('push', topic, '1', '--id', id, ...flags);
}

const counted = (topic: string, state: string, count: number) =>
  until(`${count} ${state}`, async () => {
    const { body } = await daemon.api('GET', `/v1/topics/${topic}/stats`);
    return body.states[state] === count;
  });

/** What explain says when its first line matches: notifiers learn and count on their own. */
const explained = (topic: string, line: RegExp) =>
  until(`explain says ${line}`, async () => {
    const text = await output('explain', topic);
    return line.test(text.split('\n')[0] ?? '') ? text : '';
  });

/** The port of a receiver that has closed. */
async function closedReceiver(): Promise<Sink> {
  const sink = await startSink();
  await sink.close();
  return sink;
}

it('nothing wrong: explain says so, and status ends with it', async () => {
  const says = /^no topic needs attention \(\d+ topics? registered\)$/;
  expect(await first('explain')).toMatch(says);
  const { stderr } = await dq(['status']);
  expect(stderr.trimEnd().split('\n').at(-1)).toMatch(says);
});

describe('dq explain TOPIC', () => {
  it('a receiver that refuses connections: since when, how many in a row, its words, the counts, what to press', async () => {
    const sink = await closedReceiver();
    await add('refused', sink.url);
    await push('refused', ['a', 'b', 'c']);
    await push('refused', ['later'], '--delay', '1d');
    const text = await explained(
      'refused',
      new RegExp(
        `^refused: receiver ${sink.url} fails since \\S+Z \\(3 in a row\\): connection refused \\(ECONNREFUSED 127\\.0\\.0\\.1:${sink.port}\\); ` +
          '3 retrying, 1 not yet due; late by at least \\w+: [abc], first due at \\S+Z; next [abc], due at \\S+Z; try: dq topic test refused; stop: dq topic pause refused$',
      ),
    );
    expect(text).not.toMatch(/no job waits for a call|notify log|last dead/);
    // The retry has moved the due time of the job, by minutes.
    const [, first = '', next = ''] = /first due at (\S+Z); next \w, due at (\S+Z);/.exec(text) ?? [];
    expect(Date.parse(next) - Date.parse(first)).toBeGreaterThan(30_000);
    const job = await output('get', 'refused', 'a');
    expect(job).toMatch(/^first due at +\S+Z$/m);
    expect(job).toMatch(/^next due at +\S+Z$/m);
  });

  it('a receiver that answers with an error: its status, also after a requeue; no older death beside it', async () => {
    const sink = await startSink(status(503));
    await add('down', sink.url, '--max-attempts', '1');
    await push('down', ['a', 'b', 'c']);
    await counted('down', 'dead', 3);
    const says =
      /^down: receiver \S+ fails since \S+Z \(\d in a row\): status 503; 3 dead; try: dq topic test down; stop: dq topic pause down$/;
    const text = await explained('down', says);
    expect(text).not.toContain('last dead');
    await output('dead', 'requeue', 'down', '--all');
    await counted('down', 'dead', 3);
    await explained('down', says);

    const groups = await output('dead', 'groups', 'down');
    expect(groups).toMatch(/^TOPIC +DEAD REASON +LAST REASON +STATUS +COUNT +FIRST +LAST$/m);
    expect(groups).toMatch(/^down +attempts_exhausted +status +503 +3 +\S+Z +\S+Z$/m);
    // Every filter of the other commands on dead letters.
    const filters = ['--since', 'today', '--dead-reason', 'attempts_exhausted', '--last-reason', 'status'];
    expect(await output('dead', 'groups', 'down', ...filters, '--status', '5xx')).toMatch(/^down +attempts/m);
    expect(await output('dead', 'groups', 'down', '--until', 'yesterday')).not.toMatch(/^down/m);
    expect((await dq(['dead', 'groups', 'absent'])).code).toBe(4);
    expect(JSON.parse(await output('dead', 'groups', '--json', 'down')).groups).toMatchObject([
      { topic: 'down', lastReason: 'status', status: 503, count: 3 },
    ]);
  });

  it('a topic that is paused: the counts stay, and the command that resumes it', async () => {
    const sink = await startSink();
    await add('held', sink.url);
    await output('topic', 'pause', 'held');
    await push('held', ['a', 'b']);
    await counted('held', 'ready', 2);
    const line =
      /^held: the topic is paused \(since \S+Z or earlier\); 2 ready; late by \d+s: [ab], first due at \S+Z; resume: dq topic resume held$/;
    await until('each notifier says only that', async () => {
      const [head = '', ...rest] = (await output('explain', 'held')).split('\n');
      return line.test(head) && rest.join('') === '';
    });
    expect(await output('topic', 'get', 'held')).toMatch(
      /^calls +the topic is paused \(dq topic resume held\)$/m,
    );
  });

  it('a receiver that hangs: the line says so, and no line proposes more calls', async () => {
    const sink = await startSink(() => {});
    await add('hung', sink.url, '--concurrency', '1', '--timeout', '1m');
    await push('hung', ['a', 'b']);
    const text = await explained(
      'hung',
      /^hung: receiver \S+ hangs: a call ran for longer than .*; 1 ready, 1 running; late by \w+: b, first due at .*; try: dq topic test hung; stop: dq topic pause hung$/,
    );
    expect(text).not.toMatch(/answer faster, or raise|probes only/);
  });

  it('a receiver that answers: how many attempts it took, and nothing to press', async () => {
    const sink = await startSink();
    await add('fine', sink.url);
    await push('fine', ['a', 'b']);
    await explained('fine', /^fine: receiver \S+ answers: 2 attempts delivered within 5 minutes; no jobs$/);
  });
});

it('explain lists the topics in trouble, status ends with the first line, topic ls has their numbers', async () => {
  const sink = await startSink(status(410));
  await add('lost', sink.url);
  await push('lost', ['a', 'b', 'c', 'd']);
  await counted('lost', 'dead', 4);
  await push('lost', ['later'], '--delay', '1d');
  // The summary keeps its sums for a while.
  const text = await until('the summary has them', async () => {
    const found = await output('explain');
    return /^lost .* 1 +- +4 /m.test(found) ? found : '';
  });
  const [line = '', head] = text.split('\n');
  expect(line).toMatch(/^\d+ topics? needs? attention: \S+ .*; dq explain \S+$/);
  expect(head).toMatch(/^TOPIC +REASONS +SINCE +WAITING +LATE +DEAD +CAUSE +COMMAND$/);
  expect(text).toMatch(/^lost +failing,dead_letters +\S+Z +1 +- +4 +status 410 +dq explain lost$/m);
  expect(JSON.parse(await output('explain', '--json')).attentionCount).toBeGreaterThan(0);
  const { stderr } = await dq(['status']);
  expect(stderr.trimEnd().split('\n').at(-1)).toMatch(/^\d+ topics? needs? attention: /);
  const listed = await output('topic', 'ls');
  expect(listed).toMatch(/^TOPIC +STATE +WAITING +LATE +DEAD +DELAY /);
  expect(listed).toMatch(/^lost +failing +1 +- +4 /m);
});
