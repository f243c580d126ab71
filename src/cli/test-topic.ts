// dq topic test: has a notifier make one test call of a topic, or publish one message to its broker. Prints
// how it ended. dq stores and counts nothing.

import type { TestCallJson } from '../contract/api/test-call.ts';
import { formatDuration } from '../core/duration.ts';
import { ask, type DaemonOptions } from './daemon/daemon-options.ts';
import { Exit } from './exit.ts';
import { printRecord, words } from './output/output.ts';

export interface TestFlags extends DaemonOptions {
  readonly type?: string;
}

/** Throws Exit for a call that failed. */
export async function testTopic(topic: string, body: string | undefined, flags: TestFlags): Promise<void> {
  const { json } = await ask<TestCallJson>(flags, {
    method: 'POST',
    path: ['v1', 'topics', topic, 'test-call'],
    json: { body, contentType: flags.type },
    needs: ['verdict'],
  });
  const { request, reply, phases, verdict, notifier } = json;
  if (!flags.json)
    printRecord([
      ['call', `${request.method} ${request.url}, by ${notifier} in ${phases.totalMs} ms`],
      ['result', resultOf(json)],
      ...(reply === null ? [] : [['reply', reply.body] as const]),
      ['a job', nextOf(verdict)],
    ]);
  if (verdict.outcome === 'delivered' || verdict.outcome === 'again') return;
  throw new Exit(
    'failed',
    request.method === 'PUBLISH'
      ? `the test message of ${topic} was not confirmed`
      : `the test call of ${topic} did not succeed`,
  );
}

function resultOf({ reply, verdict }: TestCallJson): string {
  const { outcome, reason, detail } = verdict;
  if (outcome === 'delivered') return reply === null ? 'confirmed by the broker' : `success, ${reply.status}`;
  if (outcome === 'again') return `snooze, ${reply?.status}`;
  return words(outcome, reason, reply?.status, detail);
}

function nextOf({ next, delayMs }: TestCallJson['verdict']): string {
  switch (next) {
    case 'ack':
      return 'would be done';
    case 'again':
      return `would be called again after ${formatDuration(delayMs ?? 0)}; no attempt counts`;
    case 'retry':
      return `would be retried after ${formatDuration(delayMs ?? 0)}`;
    case 'bury':
      return 'would be a dead letter';
    default:
      return 'would wait for its turn';
  }
}
