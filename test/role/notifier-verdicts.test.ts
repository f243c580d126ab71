// Tests one attempt at every kind of receiver, from reserve to settlement.
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { extensionOf } from '../../src/core/extension.ts';
import { limits } from '../../src/core/limits.ts';
import { readTraceContext } from '../../src/core/trace-context.ts';
import { version } from '../../src/core/version.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { TopicDraft } from '../../src/ports/registry.ts';
import { listening } from '../support/listening.ts';
import { drip, startRawServer } from '../support/raw-server.ts';
import { selfSigned } from '../support/self-signed.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { between, ids, type Rig, secret, startRig, startTopic } from './rig.ts';

/** Pushes one job, whose first attempt is settled then. `line`: of the attempt; `job`: null: it is done */
async function attempt(url: string, more: Partial<TopicDraft> = {}, given?: Rig) {
  const rig = given ?? (await startRig());
  await rig.topic('t', url, { timeoutMs: 30_000, ...more });
  await rig.run(createNotifier(rig.context()));
  await rig.push('t', 'a');
  const line = await until('the attempt', () => rig.notified()[0]);
  const find = () => rig.store.jobs.get({ topic: 't', id: 'a' });
  await until('its settlement', async () => (await find())?.state !== 'reserved');
  return { rig, line, job: await find() };
}

async function unusedPort(): Promise<number> {
  const server = await startRawServer(() => {});
  const probe = createTlsServer();
  const free = await listening(probe);
  await new Promise<void>((resolve) => probe.close(() => resolve()));
  return free === server.port ? unusedPort() : free;
}

const replying = (bytes: string) => (socket: Socket) => void socket.write(bytes);

describe('notifier: a reply', () => {
  it('to a request that cannot be built is a failed attempt', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('other', sink.url);
    // Registration rejects such a header; a row of the registry may hold it.
    const { line } = await attempt(sink.url, { headers: { 'x-bad': 'a\nb' } }, rig);
    expect(line).toMatchObject({ reason: 'protocol', verdict: 'retry' });
    await rig.push('other', 'b');
    await until('the others are delivered', () => rig.counted('other', 'delivered') === 1);
    expect(sink.arrivals.map(({ topic }) => topic)).toEqual(['other']);
  });

  it('to headers that cannot be written is a failed attempt', async () => {
    const { rig } = await startTopic();
    const store = between(rig, {
      async reserve(...asked) {
        const reserved = await rig.store.jobs.reserve(...asked);
        // It has no date that could be written.
        const spoiled = reserved.jobs.map((job) =>
          job.id === 'spoiled' ? { ...job, dueAt: Number.NaN } : job,
        );
        return { ...reserved, jobs: spoiled };
      },
    });
    await rig.pushAll('t', ['spoiled', 'b']);
    const notifier = await rig.run(createNotifier(rig.context({ store })));
    await until(
      'both are settled',
      () => rig.counted('t', 'delivered') === 1 && rig.counted('t', 'retried') === 1,
    );
    expect(rig.notified().find(({ id }) => id === 'spoiled')).toMatchObject({ reason: 'protocol' });
    expect(notifier.inFlight()).toBe(0);
  });

  it('of 200 with a body ends the job; the pushed bytes arrived, signed', async () => {
    const sink = await startSink();
    const { rig, line, job } = await attempt(`${sink.url}cb?x=1`);
    expect(line).toMatchObject({
      ...{ topic: 't', id: 'a', attempt: 1, outcome: 'delivered', verdict: 'ack', status: 200 },
    });
    expect(job).toBeNull();
    const [arrival] = sink.arrivals;
    expect(arrival?.path).toBe('/cb?x=1');
    expect(arrival?.body.toString()).toBe('{"id":"a"}');
    expect(arrival?.headers).toMatchObject({
      ...{ 'content-type': 'application/json', 'accept-encoding': 'identity', 'user-agent': `dq/${version}` },
      ...{ 'dq-topic': 't', 'dq-job-id': 'a', 'dq-attempt': '1', 'dq-max-attempts': '10' },
    });
    expect(() =>
      new Webhook(secret).verify(arrival?.body ?? '', arrival?.headers as Record<string, string>),
    ).not.toThrow();
    await until('the count', () => rig.counted('t', 'delivered') === 1);
  });

  it('of 500 is a failed attempt', async () => {
    const sink = await startSink(status(500, {}, 'oops'));
    const failed = { outcome: 'failed', reason: 'status' };
    const backoff = { type: 'ladder', stepsMs: [60_000] } as const;
    const { rig, line, job } = await attempt(sink.url, { backoff });
    expect(line).toMatchObject({ ...failed, verdict: 'retry', delayMs: 60_000 });
    expect(job).toMatchObject({
      ...{ state: 'delayed', failures: 1 },
      attempts: [{ ...failed, attempt: 1, notifier: 'dq-notifier-0' }],
    });
    expect(sink.arrivals).toHaveLength(1);
    await until('the count', () => rig.counted('t', 'retried') === 1);
  });

  it('for which deadIf is true buries at its first attempt', async () => {
    const sink = await startSink(status(200, {}, '{"code":"E_ARG"}'));
    const dead = { deadReason: 'dead_rule', reason: 'dead_rule' };
    const { line, job } = await attempt(sink.url, { deadIf: '{res.code}=="E_ARG"' });
    expect(line).toMatchObject({ ...dead, outcome: 'failed', verdict: 'bury' });
    expect(job).toMatchObject({
      ...{ state: 'dead', failures: 1, deadReason: 'dead_rule' },
      attempts: [{ reason: 'dead_rule', status: 200, ruleValues: { '{res.code}': '"E_ARG"' } }],
    });
  });

  it('with dq-again is a snooze: no attempt counts, the endpoint is healthy', async () => {
    const sink = await startSink(status(503, { 'dq-again': '10m' }, 'later'));
    const { rig, line, job } = await attempt(sink.url);
    expect(line).toMatchObject({
      ...{ outcome: 'again', verdict: 'again', reason: null, status: 503, attempt: 1, delayMs: 600_000 },
    });
    expect(job).toMatchObject({
      ...{ state: 'delayed', failures: 0, attempts: [], extension: extensionOf({ again: 1 }) },
    });
    await until('the count', () => rig.counted('t', 'again') === 1);
    expect(rig.counted('t', 'retried') + rig.counted('t', 'delivered')).toBe(0);
  });

  it('for which againIf is true comes again with the same attempt and its number of snoozes', async () => {
    const rig = await startRig();
    const sink = await startSink((_, response) => {
      response.end(sink.arrivals.length < 3 ? '{"state":"pending","ms":0}' : '{}');
    });
    await rig.topic('t', sink.url, { againIf: '{res.state}=="pending"', againAfter: '{res.ms}ms' });
    await rig.run(createNotifier(rig.context()));
    await rig.push('t', 'a');
    for (const snoozes of [1, 2]) {
      await until('a snooze', () => rig.counted('t', 'again') === snoozes);
      await rig.store.jobs.run([{ topic: 't', id: 'a' }]);
    }
    await until('the end', () => rig.counted('t', 'delivered') === 1);
    const sent = sink.arrivals.map(({ headers }) => [headers['dq-attempt'], headers['dq-again-count']]);
    expect(sent).toEqual([
      ['1', undefined],
      ['1', '1'],
      ['1', '2'],
    ]);
    expect(new Set(sink.arrivals.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
  });

  it('is judged by the topic at the end of the attempt', async () => {
    const { rig, sink } = await startTopic({ answer: () => {} });
    await rig.run(createNotifier(rig.context()));
    await rig.push('t', 'a');
    const arrival = await until('it runs', () => sink.open()[0]);
    await rig.topic('t', sink.url, { maxAttempts: 1, retryIf: '{res.code}==200' });
    sink.finish(arrival);
    expect(await until('the attempt', () => rig.notified()[0])).toMatchObject({
      reason: 'rule',
      verdict: 'bury',
      deadReason: 'attempts_exhausted',
    });
  });

  it.each([
    ['with a length', `content-length: ${300 * 1024}`, (item: string) => item],
    ['in chunks', 'transfer-encoding: chunked', (item: string) => `400\r\n${item}\r\n`],
  ])('of 300 KiB, %s, from a receiver that prints while it works: all its work is done', async (...row) => {
    const [, framing, pieceOf] = row;
    let done = 0;
    const server = await startRawServer((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n`);
      const work = () => {
        // PHP and CGI end a script whose client has closed the connection.
        if (socket.destroyed) return;
        done += 1;
        socket.write(pieceOf('x'.repeat(1024)));
        if (done < 300) setTimeout(work, 1);
        else if (framing.includes('chunked')) socket.write('0\r\n\r\n');
      };
      work();
    });
    expect((await attempt(server.url)).line).toMatchObject({ outcome: 'delivered', status: 200 });
    expect(done).toBe(300);
  });

  it('beyond 64 KiB, with a rule on the body: its end is awaited, then the attempt fails', async () => {
    let isDone = false;
    const server = await startRawServer((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${200 * 1024}\r\n\r\n`);
      socket.write('x'.repeat(100 * 1024), () => {
        isDone = !socket.destroyed;
        socket.write('x'.repeat(100 * 1024));
      });
    });
    const { line } = await attempt(server.url, { retryIf: '{res.code}==500' });
    expect(line).toMatchObject({ reason: 'reply_too_large', status: 200 });
    expect(isDone).toBe(true);
    expect(server.open.size).toBe(1);
  });

  it('without an end fails the attempt as timeout, and its connection closes', async () => {
    const server = await startRawServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
      drip(socket, `4000\r\n${'x'.repeat(0x4000)}\r\n`, 1);
    });
    expect((await attempt(server.url, { timeoutMs: 1_000 })).line).toMatchObject({ reason: 'timeout' });
    await until('the connection is closed', () => server.open.size === 0);
  });

  it('of exactly 64 KiB is whole', async () => {
    const sink = await startSink(status(200, {}, `"${'x'.repeat(limits.replyBytesMax - 2)}"`));
    const { line } = await attempt(sink.url, { retryIf: '{status}==500' });
    expect(line).toMatchObject({ outcome: 'delivered' });
  });

  it('leaves an escaped excerpt of at most 1,024 characters', async () => {
    const sink = await startSink(status(500, {}, `a\r\nb\u001b[31m\u2028${'x'.repeat(5_000)}`));
    const { job } = await attempt(sink.url);
    const excerpt = job?.attempts[0]?.replyExcerpt ?? '';
    expect(excerpt.startsWith('a\\u000d\\u000ab\\u001b[31m\\u2028xxx')).toBe(true);
    expect(excerpt).toHaveLength(notifierLimits.replyExcerptMax);
  });

  it('that fails leaves why: rule values, headers without cookies, lateness, the wait', async () => {
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`x-${n}`, 'y'.repeat(500)]));
    const headers = { ...many, server: 'nginx', 'set-cookie': 'session=secret', date: 'now' };
    const sink = await startSink(status(200, headers, `{"code":500,"msg":"${'z'.repeat(500)}"}`));
    const { job } = await attempt(sink.url, { retryIf: '{res.code}!=200 || {res.msg}==1' });
    const [kept] = job?.attempts ?? [];
    expect(kept).toMatchObject({ reason: 'rule', nextDelayMs: 50, nextBy: 'backoff' });
    expect(kept?.detail).toBeUndefined();
    expect(kept?.latenessMs).toBeGreaterThanOrEqual(0);
    expect(kept?.ruleValues).toEqual({
      '{res.code}': '500',
      '{res.msg}': `"${'z'.repeat(notifierLimits.ruleValueMax - 1)}`,
    });
    expect(kept?.replyHeaders?.[0]).toBe('server: nginx');
    expect(kept?.replyHeaders).toHaveLength(notifierLimits.replyHeadersMax);
    for (const line of kept?.replyHeaders ?? []) {
      expect(line.length).toBeLessThanOrEqual(notifierLimits.replyHeaderMax);
      expect(line).not.toMatch(/cookie|date/);
    }
  });

  it('of a success is kept in the history, cut to 100 characters', async () => {
    const sink = await startSink(status(200, {}, `ok\n${'x'.repeat(5_000)}`));
    const { rig } = await attempt(sink.url);
    const ended = await until('its end', () => rig.store.history.get({ topic: 't', id: 'a' }));
    const excerpt = `ok\\u000a${'x'.repeat(notifierLimits.deliveredExcerptMax - 8)}`;
    expect(ended.attempts).toMatchObject([
      { attempt: 1, outcome: 'delivered', reason: null, status: 200, replyExcerpt: excerpt },
    ]);
  });

  it('of a success is not sent to a store without history', async () => {
    const { rig } = await startTopic();
    await rig.run(createNotifier(rig.context({ config: { 'history.retention': 0 } })));
    await rig.push('t', 'a');
    const ended = await until('its end', () => rig.store.history.get({ topic: 't', id: 'a' }));
    expect(ended).toMatchObject({ state: 'done', attempts: [] });
  });
});

describe('notifier: a receiver', () => {
  it.each([
    ['101', 'HTTP/1.1 101 S\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n', 'another protocol (101)'],
    ['a long head', `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(70_000)}\r\n\r\n`, 'longer than 64 KiB'],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n', 'two lengths'],
    ['status 000', 'HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n', 'below 100'],
    [
      'lines without CR',
      'HTTP/1.1 200 OK\ncontent-length: 2\n\n{}',
      '(Missing expected CR after response line)',
    ],
  ])('that sends %s: the attempt keeps what dq cannot read', async (_name, reply, words) => {
    const server = await startRawServer(replying(reply));
    const { line } = await attempt(server.url);
    expect(line).toMatchObject({ reason: 'protocol', detail: expect.stringContaining(words) });
  });

  it('that does not listen fails the attempt: connect', async () => {
    const port = await unusedPort();
    const detail = `ECONNREFUSED 127.0.0.1:${port}`;
    const { line, job } = await attempt(`http://127.0.0.1:${port}/`);
    expect(line).toMatchObject({ reason: 'connect', status: null, detail });
    expect(job?.attempts).toMatchObject([{ detail }]);
  });

  it('without TLS, or that hangs in the handshake, fails as tls or timeout', async () => {
    const rig = await startRig();
    const plain = await startRawServer(replying('HTTP/1.1 400 Bad Request\r\n\r\n'));
    const silent = await startRawServer(() => {});
    await rig.topic('plain', plain.url.replace('http:', 'https:'));
    await rig.topic('silent', silent.url.replace('http:', 'https:'), { timeoutMs: 300 });
    await rig.run(createNotifier(rig.context()));
    await rig.push('plain', 'a');
    await rig.push('silent', 'a');
    await until('both attempts', () => rig.notified().length === 2);
    const reasons = Object.fromEntries(rig.notified().map(({ topic, reason }) => [topic, reason]));
    expect(reasons).toEqual({ plain: 'tls', silent: 'timeout' });
    expect(rig.notified().find(({ topic }) => topic === 'silent')).toMatchObject({
      detail: 'no request was sent within 300 ms: waited for the TLS handshake',
    });
    // Well before undici would give it up by itself.
    await until('the connection is given up', () => silent.open.size === 0, { deadlineMs: 8_000 });
  });

  it('with a self-signed certificate is called only where the topic allows it', async () => {
    const rig = await startRig();
    const bodies: string[] = [];
    const server = createTlsServer(selfSigned, (request, response) => {
      request.on('data', (data: Buffer) => bodies.push(data.toString()));
      request.on('end', () => response.end('{}'));
    });
    const port = await listening(server);
    const url = `https://127.0.0.1:${port}/`;
    await rig.topic('strict', url, { maxAttempts: 1 });
    await rig.topic('trusting', url, { dangerouslySkipTlsVerify: true });
    await rig.run(createNotifier(rig.context()));
    await rig.push('strict', 'a');
    await until('the strict attempt', () => rig.notified().length === 1);
    expect(rig.notified()[0]).toMatchObject({
      topic: 'strict',
      reason: 'tls',
      detail: 'DEPTH_ZERO_SELF_SIGNED_CERT',
    });
    await rig.push('trusting', 'b');
    await until('the trusting attempt', () => rig.notified().length === 2);
    expect(rig.notified()[1]).toMatchObject({ topic: 'trusting', outcome: 'delivered' });
    // The connection of the trusting topic must not serve the strict one.
    await rig.push('strict', 'c');
    await until('the second strict attempt', () => rig.notified().length === 3);
    expect(rig.notified()[2]).toMatchObject({ topic: 'strict', reason: 'tls' });
    expect(bodies).toEqual(['{"id":"b"}']);
    const warned = rig.lines.filter(({ message }) => message === 'notifier: certificates are not verified');
    expect(warned).toMatchObject([{ topic: 'trusting' }]);
  });
});

describe('notifier: a kept connection', () => {
  it('is used again', async () => {
    const server = await startRawServer(replying('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}'));
    const { rig } = await attempt(server.url);
    await rig.push('t', 'b');
    await until('the second delivery', () => rig.counted('t', 'delivered') === 2);
    expect(server.connections()).toBe(1);
  });

  it('that breaks after a request was written costs no attempt: a new one gets the request again', async () => {
    const server = await startRawServer((socket, n) => {
      if (n === 2) socket.destroy();
      else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
    });
    const { rig } = await attempt(server.url);
    await rig.push('t', 'b');
    await until('the second attempt', () => rig.notified().length === 2);
    expect(rig.notified()[1]).toMatchObject({ id: 'b', attempt: 1, outcome: 'delivered' });
    const idOf = (n: number) => /^webhook-id: (.*)/m.exec(server.received[n] ?? '')?.[1];
    expect(server.received).toHaveLength(3);
    expect(idOf(2)).toBe(idOf(1));
  });
});

describe('notifier: options of a job', () => {
  it('replace those of its topic, and the receiver sees them', async () => {
    const { rig, sink } = await startTopic({ answer: status(500) });
    await rig.run(createNotifier(rig.context()));
    const once = extensionOf({ maxAttempts: 1 });
    const soon = extensionOf({ backoff: { type: 'ladder', stepsMs: [0, 3_600_000] }, maxAttempts: 7 });
    await rig.push('t', 'once', { extension: once });
    await rig.push('t', 'soon', { extension: soon });
    await until('three attempts', () => rig.notified().length >= 3);
    const lines = rig
      .notified()
      .map(({ id, attempt, verdict, delayMs = 0 }) => [id, attempt, verdict, delayMs]);
    expect(lines.sort()).toEqual([
      ['once', 1, 'bury', 0],
      ['soon', 1, 'retry', 0],
      ['soon', 2, 'retry', 3_600_000],
    ]);
    const most = sink.arrivals.map(({ id, headers }) => [id, headers['dq-max-attempts']]);
    expect(most.sort()).toEqual([
      ['once', '1'],
      ['soon', '7'],
      ['soon', '7'],
    ]);
  });

  it('a trace goes with each attempt, as its child', async () => {
    const rig = await startRig();
    const replies = [500, 200];
    const sink = await startSink((arrival, response) => status(replies.shift() ?? 200)(arrival, response));
    await rig.topic('t', sink.url, { backoff: { type: 'ladder', stepsMs: [0] } });
    await rig.run(createNotifier(rig.context()));
    const producer = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`;
    const trace = readTraceContext(producer, 'vendor=a') ?? undefined;
    await rig.push('t', 'traced', { extension: extensionOf({ trace }) });
    await until('both attempts', () => rig.counted('t', 'delivered') === 1);
    const sent = sink.arrivals.map(({ headers }) => headers['traceparent']);
    expect(sent).toEqual([1, 2].map(() => expect.stringMatching(/^00-1{32}-[0-9a-f]{16}-01$/)));
    expect(new Set([...sent, producer]).size).toBe(3);
    expect(sink.arrivals.map(({ headers }) => headers['tracestate'])).toEqual(['vendor=a', 'vendor=a']);
    expect(rig.notified().map(({ traceparent }) => traceparent)).toEqual(sent);
    const ended = await rig.store.history.get({ topic: 't', id: 'traced' });
    expect(ended?.attempts.map(({ traceparent }) => traceparent)).toEqual(sent);
    await rig.push('t', 'plain');
    await until('the plain one', () => rig.counted('t', 'delivered') === 2);
    expect(sink.arrivals.at(-1)?.headers).not.toHaveProperty('traceparent');
  });

  it('a backlog past its deadline does not delay the jobs behind it', async () => {
    const { rig, sink } = await startTopic({ concurrency: 2 });
    const extension = extensionOf({ deadline: Date.now() + 1 });
    for (const letter of ['a', 'b', 'c']) await rig.pushAll('t', ids(letter, 100), { extension });
    await rig.push('t', 'behind them');
    // As by default. With one reserve in each of these, 300 jobs would take 150 s.
    await rig.run(createNotifier(rig.context({ config: { pollCeiling: 1_000 } })));
    await until('the job behind them', () => sink.arrivals.length === 1);
    expect(sink.arrivals[0]?.id).toBe('behind them');
    // The store may answer the last burials after the call.
    await until('the others are dead', () => rig.counted('t', 'dead') === 300);
  });
});
