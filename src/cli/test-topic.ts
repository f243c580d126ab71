// dq topic test: has a notifier make one test call of a topic, or publish one message to its broker. Prints
// how it ended. dq stores and counts nothing.

import { formatDuration } from '../core/duration.ts';
import { clientOf, type DaemonOptions } from './daemon/daemon-options.ts';
import { Exit } from './exit.ts';
import { printData, printRecord } from './output/output.ts';

export interface TestFlags extends DaemonOptions {
  readonly type?: string;
}

interface TestReply {
  readonly request: { readonly method: string; readonly url: string };
  readonly reply: { readonly status: number; readonly body: string } | null;
  readonly phases: { readonly totalMs: number };
  readonly verdict: {
    readonly outcome: string;
    readonly reason: string | null;
    readonly detail: string;
    readonly next: string | null;
    readonly delayMs: number | null;
  };
  readonly notifier: string;
}

/** Throws Exit for a call that failed. */
export async function testTopic(topic: string, body: string | undefined, flags: TestFlags): Promise<void> {
  const { text, json } = await clientOf(flags).call<TestReply>({
    method: 'POST',
    path: ['v1', 'topics', topic, 'test-call'],
    json: {
      ...(body === undefined ? {} : { body }),
      ...(flags.type === undefined ? {} : { contentType: flags.type }),
    },
    needs: ['verdict'],
  });
  const { request, reply, phases, verdict, notifier } = json;
  if (flags.json) printData(text);
  else
    printRecord([
      ['call', `${request.method} ${request.url}, by ${notifier} in ${phases.totalMs} ms`],
      ['result', resultOf(json)],
      ...(reply === null ? [] : [['reply', reply.body] as const]),
      ['a job', nextOf(verdict)],
    ]);
  if (verdict.outcome === 'delivered') return;
  throw new Exit(
    'failed',
    request.method === 'PUBLISH'
      ? `the test message of ${topic} was not confirmed`
      : `the test call of ${topic} did not succeed`,
  );
}

function resultOf({ reply, verdict }: TestReply): string {
  const { outcome, reason, detail } = verdict;
  if (outcome === 'delivered') return reply === null ? 'confirmed by the broker' : `success, ${reply.status}`;
  const status = reply === null ? '' : String(reply.status);
  return [outcome, reason ?? '', status, detail].filter((part) => part !== '').join(' ');
}

function nextOf({ next, delayMs }: TestReply['verdict']): string {
  switch (next) {
    case 'ack':
      return 'would be done';
    case 'retry':
      return `would be retried after ${formatDuration(delayMs ?? 0)}`;
    case 'bury':
      return 'would be a dead letter';
    default:
      return 'would wait for its turn';
  }
}
