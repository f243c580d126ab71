// Runs dq-upkeep in its own process, on a store that the test serves, so that tests can kill it in the middle
// of a mail. This file is both ends: forked, it runs the role; imported, it starts such processes.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { Config } from '../../src/config/options.ts';
import { StoreClock } from '../../src/process/store-clock.ts';
import { readTopic } from '../../src/registry/sql/tables/topic-row.ts';
import { TopicBook } from '../../src/registry/topic-book.ts';
import { connectStore } from '../../src/store/sqlite/client/client.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { noMetrics } from '../../src/telemetry/metrics.ts';
import { createUpkeep, type UpkeepTimes } from '../../src/upkeep/upkeep.ts';
import { ownerPaths } from './sqlite-store.ts';

interface Given {
  /** of the store */
  readonly directory: string;
  readonly config: Config;
  readonly times: Partial<UpkeepTimes>;
}

const here = fileURLToPath(import.meta.url);

/** Resolves when it runs; ends with the test. */
export async function startUpkeepProcess(given: Given): Promise<{ kill(): Promise<void> }> {
  const child: ChildProcess = fork(here, ['run'], { execArgv: ['--import', 'tsx'] });
  const ended = once(child, 'exit');
  const kill = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  onTestFinished(kill);
  child.send(given);
  const [word] = (await Promise.race([once(child, 'message'), ended])) as [unknown];
  if (word !== 'running') throw new Error(`upkeep did not start: ${String(word)}`);
  return { kill };
}

async function run({ directory, config, times }: Given): Promise<void> {
  const connection = connectStore({
    ...ownerPaths(directory),
    title: 'dq-upkeep',
    log: silentLog,
    // upkeep reads addresses and states and calls no topic.
    readTopic: (record) =>
      readTopic(record, () => {
        throw new Error('upkeep opens no topic');
      }),
  });
  await connection.start();
  const topics = new TopicBook(connection.registry, silentLog);
  await topics.start();
  const role = createUpkeep(
    {
      config,
      log: silentLog,
      title: 'dq-upkeep',
      version: '0.0.0-test',
      owner: { instance: 1, incarnation: 1 },
      index: 0,
      count: 1,
      store: connection.store,
      clock: new StoreClock(() => connection.store.admin.clock()),
      registry: connection.registry,
      topics,
      counters: { add: () => {} },
      metrics: noMetrics,
      link: { send: () => {}, sent: async () => {}, onMessage: () => {} },
      leaseKey: () => Buffer.alloc(32),
      adminToken: '',
      restarts: 0,
      takesOver: false,
    },
    times,
  );
  await role.start();
  process.send?.('running');
  // The test that started this process has died.
  process.on('disconnect', () => process.exit(0));
}

if (process.argv[1] === here && process.argv[2] === 'run')
  process.once('message', (given) => void run(given as Given));
