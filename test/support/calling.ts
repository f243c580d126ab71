// Starts a daemon in the middle of a callback.
import { expect } from 'vitest';
import type { Daemon } from './daemon.ts';
import { startDaemon } from './daemon.ts';
import type { Sink } from './sink.ts';
import { startSink } from './sink.ts';
import { until } from './until.ts';

/** Calls back for the job `a` of the topic `t` and waits for the sink's reply; the lease lasts 70 s. */
export async function calling(
  config: Readonly<Record<string, unknown>> = {},
): Promise<{ daemon: Daemon; sink: Sink }> {
  const sink = await startSink(() => {});
  const daemon = await startDaemon({ config });
  const topic = { topic: 't', callbackUrl: sink.url, timeout: '60s' };
  expect((await daemon.api('POST', '/v1/topics', topic)).status).toBe(201);
  expect((await daemon.push('t', '{}', { id: 'a' })).status).toBe(201);
  await until('the callback is running', () => sink.open().length === 1);
  return { daemon, sink };
}
