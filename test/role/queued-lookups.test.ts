// Calls whose look-up gets no turn, and connections that follow a changed name.
import type { LookupFunction, Socket } from 'node:net';
import { createServer } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { notifierLimits } from '../../src/notifier/limits.ts';
import type { NameProbe } from '../../src/notifier/name-probe.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { startRawServer } from '../support/raw-server.ts';
import { until } from '../support/until.ts';
import { ids, startRig } from './rig.ts';

/** Look-ups that end only when the test calls the functions in `asked`. */
function hungLookups() {
  const asked: Parameters<LookupFunction>[2][] = [];
  const lookup: LookupFunction = (_name, _options, found) => void asked.push(found);
  const probe: NameProbe = {
    isLocal: () => false,
    probe(_name, done) {
      setImmediate(() => done({ kind: 'answered', addresses: [] }));
      return () => {};
    },
  };
  return { asked, seams: { lookup, probe } };
}

const reply = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';

it('notifier: releases a job whose look-up gets no turn', async () => {
  const rig = await startRig();
  const server = await startRawServer((socket) => void socket.write(reply));
  const { asked, seams } = hungLookups();
  await rig.run(createNotifier(rig.context(), seams));
  for (let n = 0; n < notifierLimits.lookupThreads.new; n++) {
    await rig.topic(`late${n}`, `http://late${n}.test:${server.port}/`);
    await rig.push(`late${n}`, 'a');
  }
  await until('all threads are in use', () => asked.length === notifierLimits.lookupThreads.new);
  await rig.topic('queued', `http://queued.test:${server.port}/`, { timeoutMs: 2_000, maxAttempts: 1 });
  await rig.push('queued', 'a');
  let released = 0;
  await until('it is released', () => {
    for (const [name, , value] of rig.metrics()?.counts ?? [])
      if (name === 'dq_jobs_released_total') released += value;
    return released >= 1;
  });
  for (const found of asked) found(null, [{ address: '127.0.0.1', family: 4 }]);
  const answered = asked.length;
  await until('it has its turn', () => {
    for (const found of asked.splice(answered)) found(null, [{ address: '127.0.0.1', family: 4 }]);
    return rig.notified().find(({ topic }) => topic === 'queued');
  });
  const [line] = rig.notified().filter(({ topic }) => topic === 'queued');
  expect(line).toMatchObject({ outcome: 'delivered', attempt: 1 });
});

it('notifier: a topic waits for the look-up of its broker', async () => {
  const rig = await startRig();
  const { asked, seams } = hungLookups();
  const brokers = ['main=amqp091+amqp://broker.test'];
  await rig.run(createNotifier(rig.context({ config: { brokers } }), seams));
  for (let n = 0; n < notifierLimits.lookupThreads.new; n++) {
    await rig.topic(`late${n}`, `http://late${n}.test/`);
    await rig.push(`late${n}`, 'a');
  }
  await until('all threads are in use', () => asked.length === notifierLimits.lookupThreads.new);
  const target = { broker: 'main', to: 'q', key: null };
  await rig.topic('queued', '', { delivery: 'mq', target });
  await rig.push('queued', 'a');
  const line = await until('it waits', () =>
    rig.lines.find(({ message }) => message.includes('look-up is queued')),
  );
  expect(line).toMatchObject({ topic: 'queued', host: 'broker.test' });
  expect(rig.notified()).toEqual([]);
});

it('notifier: queued look-ups neither spin nor delay other topics', async () => {
  const rig = await startRig();
  const server = await startRawServer((socket) => void socket.write(reply));
  const { asked, seams } = hungLookups();
  const hung = ids('hung', 12);
  for (const name of hung) {
    const more = { timeoutMs: 100, maxAttempts: 100, concurrency: 1_000, rate: 1_000 };
    await rig.topic(name, `http://${name}.test:${server.port}/`, more);
    await rig.pushAll(name, ids('j', 100));
  }
  await rig.topic('healthy', server.url, { maxAttempts: 1 });
  await rig.run(createNotifier(rig.context({ config: { 'notifier.slots': 40 } }), seams));
  const counted = { released: 0, late: 0 };
  const count = () => {
    const { counts, histograms } = rig.metrics() ?? { counts: [], histograms: [] };
    for (const [name, , n] of counts) if (name === 'dq_jobs_released_total') counted.released += n;
    for (const [name, buckets] of histograms)
      if (name === 'dq_delivery_lateness_seconds') counted.late += buckets.reduce((sum, n) => sum + n, 0);
    return counted;
  };
  const topicsLogged = (what: string) =>
    rig.lines.filter(({ message }) => message.includes(what)).map(({ topic }) => String(topic));
  const queued = hung.length - notifierLimits.lookupThreads.new;
  await until('topics wait', () => topicsLogged('look-up is queued').length === queued);
  const before = { ...count() };
  let pushed = 0;
  await until('it goes on', async () => {
    await rig.push('healthy', `h${pushed++}`);
    await until('the healthy topic is called', () => rig.counted('healthy', 'delivered') === pushed);
    return pushed >= 20;
  });
  // Calls that had started before are released later; none is repeated.
  expect(count().released - before.released).toBeLessThan(queued * 20);
  let answered = 0;
  await until('each topic has its turn', () => {
    for (; answered < asked.length; answered++)
      asked[answered]?.(null, [{ address: '127.0.0.1', family: 4 }]);
    return hung.every((name) => rig.counted(name, 'delivered') > 0);
  });
  const queuedTopics = topicsLogged('look-up is queued').toSorted();
  expect(queuedTopics).toHaveLength(queued);
  await until('the end is logged', () => topicsLogged('had its turn').length === queued);
  expect(topicsLogged('had its turn').toSorted()).toEqual(queuedTopics);
  // Lateness counts attempts only.
  expect(count().late).toBe(rig.notified().length);
});

it('notifier: follows a changed name and interrupts no call', async () => {
  const rig = await startRig();
  const arrivals: string[] = [];
  const held: Socket[] = [];
  const listen = (address: string, port: number) =>
    new Promise<number>((resolve) => {
      const server = createServer((socket) => {
        socket.on('error', () => {});
        socket.on('data', (data) => {
          const id = /^dq-job-id: (\S+)/m.exec(data.toString())?.[1] ?? '';
          arrivals.push(`${address} ${id}`);
          if (id === 'long') held.push(socket);
          else socket.write(reply);
        });
      });
      server.listen(port, address, () => resolve((server.address() as { port: number }).port));
      onTestFinished(() => void server.close());
    });
  const port = await listen('127.0.0.1', 0);
  await listen('127.0.0.2', port);
  let isMoved = false;
  const dns = await startDnsServer(() => [isMoved ? '127.0.0.2' : '127.0.0.1']);
  const url = `http://moving.test:${port}/`;
  await rig.topic('slow', url, { maxAttempts: 1, timeoutMs: 60_000 });
  // One call at a time: its connection is never idle for long, so no second one is opened.
  await rig.topic('t', url, { maxAttempts: 1, concurrency: 1 });
  const seams = { lookup: dns.lookup, lookupFreshMs: 0, connectionAgeMsMax: 500 };
  await rig.run(createNotifier(rig.context(), seams));
  await rig.push('slow', 'long');
  await rig.push('t', 'before');
  await until('the long call runs', () => held.length === 1 && rig.notified().length === 1);
  isMoved = true;
  let n = 0;
  await until('calls go to the new address', async () => {
    await rig.push('t', `j${n++}`);
    return arrivals.some((arrival) => arrival.startsWith('127.0.0.2'));
  });
  const moved = arrivals.length;
  for (let more = 0; more < 20; more++) await rig.push('t', `j${n++}`);
  await until('all others are delivered', () => rig.notified().length === n + 1);
  expect(arrivals.slice(moved).filter((arrival) => arrival.startsWith('127.0.0.1'))).toEqual([]);
  held[0]?.write(reply);
  await until('the long call is delivered', () => rig.notified().length === n + 2);
  expect(rig.notified().filter(({ outcome }) => outcome !== 'delivered')).toEqual([]);
});
