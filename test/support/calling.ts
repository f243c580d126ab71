// Brings a daemon into the middle of a callback.
import { expect } from 'vitest';
import type { RunningDaemon } from './daemon.ts';
import { addTopic } from './producing.ts';
import { type Sink, startSink } from './sink.ts';
import { until } from './until.ts';

/** Calls back for the job `a` of the topic `t` and waits for the sink's reply; the lease lasts 70 s. */
export async function calling(daemon: RunningDaemon): Promise<Sink> {
  const sink = await startSink(() => {});
  await addTopic(daemon, 't', sink.url, { timeout: '60s' });
  expect((await daemon.push('t', '{}', { id: 'a' })).status).toBe(201);
  await until('the callback is running', () => sink.open().length === 1);
  return sink;
}
