import { expect } from 'vitest';
import type { RunningDaemon } from './daemon.ts';
import { until } from './until.ts';

/** The default timeout is longer than any delay of a busy machine: a failed attempt would repeat a minute
 *  later. */
export async function addTopic(
  daemon: RunningDaemon,
  topic: string,
  callbackUrl: string,
  settings: Record<string, unknown> = {},
): Promise<void> {
  await createTopic(daemon, { topic, callbackUrl, timeout: '30s', ...settings });
}

/** Tries again while MySQL takes longer than dq waits for it, as on a busy disk. */
export async function createTopic(daemon: RunningDaemon, topic: Record<string, unknown>): Promise<void> {
  const created = [201];
  const reply = await until(`topic ${topic.topic}`, async () => {
    const answer = await daemon.api('POST', '/v1/topics', topic);
    if (answer.status !== 503) return answer;
    // It may have been created all the same.
    created[1] = 409;
    throw new Error(JSON.stringify(answer.body));
  });
  expect(created, JSON.stringify(reply.body)).toContain(reply.status);
}

/** Pauses the topic, and waits until every notifier knows it. */
export async function pauseTopic(daemon: RunningDaemon, topic: string): Promise<void> {
  expect(await daemon.api('POST', `/v1/topics/${topic}/pause`)).toMatchObject({ status: 200 });
  await until('every notifier knows that the topic is paused', async () => {
    const { notifiers } = (await daemon.api('GET', `/v1/topics/${topic}/capacity`)).body as {
      notifiers: { reasons: { code: string }[] | null }[];
    };
    return notifiers.every(({ reasons }) => reasons?.some(({ code }) => code === 'paused') === true);
  });
}

/** For a paused topic: jobs pushed before become ready together. A topic whose calls have hung for
 *  slowCallMs gets few further calls, so single pushes would not start many. */
export async function resumeTopic(daemon: RunningDaemon, topic: string): Promise<void> {
  expect(await daemon.api('POST', `/v1/topics/${topic}/resume`)).toMatchObject({ status: 200 });
}

/** Handles every item, 32 at a time. */
export async function forAll<T>(items: readonly T[], handle: (item: T) => Promise<unknown>): Promise<void> {
  let next = 0;
  const one = async () => {
    while (next < items.length) await handle(items[next++] as T);
  };
  await Promise.all(Array.from({ length: 32 }, one));
}

export const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return groups;
}

/** Jobs that are stored in any state. */
export async function jobsLeft(daemon: RunningDaemon): Promise<number> {
  const { body } = await daemon.api('GET', '/v1/stats');
  return Object.values(body.states as Record<string, number>).reduce((sum, n) => sum + n, 0);
}

/** Removes all schedules, and all topics with their jobs. */
export async function removeAll(daemon: RunningDaemon): Promise<void> {
  const items = async (kind: string) => (await daemon.api('GET', `/v1/${kind}`)).body.items;
  const schedules: { name: string }[] = await items('schedules');
  const topics: { topic: string; onDone: string; onDead: string }[] = await items('topics');
  const isNaming = ({ onDone, onDead }: { onDone: string; onDead: string }) => onDone + onDead !== '';
  const pathOf = ({ topic }: { topic: string }) => `topics/${topic}?jobs=purge`;
  // A topic stays while another one names it.
  for (const paths of [
    [...schedules.map(({ name }) => `schedules/${name}`), ...topics.filter(isNaming).map(pathOf)],
    topics.filter((one) => !isNaming(one)).map(pathOf),
  ]) {
    // At once: the removal of a topic waits until every process knows it.
    const removed = await Promise.all(paths.map((path) => daemon.api('DELETE', `/v1/${path}`)));
    expect(removed.map(({ status }) => status)).toEqual(paths.map(() => 200));
  }
}
