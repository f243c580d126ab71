// Calls whose look-up has no turn.
import type { LookupFunction } from 'node:net';
import { expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import type { NameProbe } from '../../src/notifier/name-probe.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { startRawServer } from '../support/raw-server.ts';
import { until } from '../support/until.ts';
import { startRig } from './rig.ts';

const reply = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';

it('notifier: releases a job whose look-up has no turn, without attempt and strike', async () => {
  const rig = await startRig();
  const server = await startRawServer((socket) => void socket.write(reply));
  const asked: Parameters<LookupFunction>[2][] = [];
  const lookup: LookupFunction = (_name, _options, found) => void asked.push(found);
  const probe: NameProbe = {
    isLocal: () => false,
    probe(_name, done) {
      setImmediate(() => done({ kind: 'answered', addresses: [] }));
      return () => {};
    },
  };
  await rig.run(createNotifier(rig.context(), { lookup, probe }));
  for (let n = 0; n < limits.lookupThreads.new; n++) {
    await rig.topic(`late${n}`, `http://late${n}.test:${server.port}/`);
    await rig.push(`late${n}`, 'a');
  }
  await until('all threads are in use', () => asked.length === limits.lookupThreads.new);
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
