// Makes the changes of a plan, one after the other. A topic with jobs stays, and the others go on; every
// other failure ends the work. Running `dq apply` again makes what is left.

import type { TopicWithSecretJson } from '../../contract/api/topic.ts';
import { type ApiClient, ApiRefusal } from '../daemon/api-client.ts';
import { Exit } from '../exit.ts';
import { say } from '../output/output.ts';
import { type Change, nameOf } from './plan.ts';

/** The change of another caller came between the plan and this one. */
const changedMeanwhile: ReadonlySet<string> = new Set([
  ...['topic_changed', 'topic_not_found', 'schedule_changed', 'schedule_not_found'],
]);

export async function makeChanges(client: ApiClient, changes: readonly Change[]): Promise<void> {
  let made = 0;
  const staying = new Set<string>();
  for (const change of changes) {
    try {
      if (staying.has(change.removedWith ?? ''))
        say(`dq: ${nameOf(change)} stays with its topic ${change.removedWith}`);
      else if (await isMade(client, change)) made += 1;
      else staying.add(change.name);
    } catch (error) {
      throw failureOf(error, change, made, changes.length);
    }
  }
  const done = `${made} of ${changes.length} changes are made`;
  if (staying.size > 0)
    throw new Exit('partlyFailed', `${done}; topics with jobs that stay: ${staying.size}`);
  say(`dq: ${done}; effective within 2 s`);
}

/** false: the topic has jobs and stays. */
async function isMade(client: ApiClient, change: Change): Promise<boolean> {
  let { revision } = change;
  for (const call of change.calls) {
    const headers = revision === null ? {} : { 'if-match': `"${revision}"` };
    try {
      const { json } = await client.call<Partial<TopicWithSecretJson>>({ ...call, headers });
      revision = json.revision ?? null;
      const isMade = change.verb === 'add' && json.delivery === 'push' && !hasSecret(call.json);
      if (isMade) sayNewSecret(change);
    } catch (error) {
      if (!(error instanceof ApiRefusal) || error.problem.code !== 'topic_has_jobs') throw error;
      say(`dq: ${nameOf(change)} has ${error.problem.jobs} jobs, dead letters included, and stays`);
      return false;
    }
  }
  return true;
}

const hasSecret = (json: unknown): boolean => Object.hasOwn(Object(json), 'secret');

/** Not the secret itself: logs of deployments keep what commands print. */
function sayNewSecret({ name }: Change): void {
  say(`dq: ${name} has a secret that dq made; dq topic secret ${name} makes another one and prints it`);
}

function failureOf(error: unknown, change: Change, made: number, count: number): unknown {
  if (!(error instanceof Exit)) return error;
  const isOutdated = error instanceof ApiRefusal && changedMeanwhile.has(error.problem.code);
  const reason = isOutdated ? 'was changed meanwhile; run dq apply again' : error.message;
  const message = `${nameOf(change)}${isOutdated ? ' ' : ': '}${reason}`;
  // Without a reply of dq the exit code tells why.
  if (made === 0 && !(error instanceof ApiRefusal)) return error;
  if (made === 0) return new Exit('failed', message, { cause: error });
  return new Exit('partlyFailed', `${message} (${made} of ${count} changes are made)`, { cause: error });
}
