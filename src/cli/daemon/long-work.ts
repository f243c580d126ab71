// Starts work of the daemon that takes long, and waits for its end: a check, a copy, an operation. The work
// goes on when the command is interrupted; the API still reports its result.

import type { OperationJson } from '../../contract/api/operation.ts';
import type { BackupJson, FsckJson } from '../../contract/api/store.ts';
import { clearInterval, monotonicNow, setInterval, sleep } from '../../runtime/time.ts';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';
import { printData, say } from '../output/output.ts';
import { startProgress } from '../output/progress.ts';
import type { ApiCall, ApiClient, ApiReply, FlagNames } from './api-client.ts';

/** `doing`: "copying". Returns the reply with state done; throws Exit when the work failed or was lost. */
export async function doLongWork<Work extends BackupJson | FsckJson>(
  client: ApiClient,
  start: ApiCall,
  doing: string,
): Promise<ApiReply<Work>> {
  await client.call(start);
  const since = monotonicNow();
  const timer = setInterval(() => {
    say(`dq: ${doing} for ${Math.round((monotonicNow() - since) / 1_000)} s`);
  }, cliLimits.progressEveryMs);
  try {
    for (;;) {
      const reply = await client.call<Work>({ path: start.path });
      const { state, reason } = reply.json;
      if (state === 'done') return reply;
      if (state === 'failed') throw new Exit('failed', reason ?? 'the work failed');
      if (state === 'none') throw new Exit('failed', 'dq-store restarted and lost the work; run this again');
      await sleep(cliLimits.workPollMs);
    }
  } finally {
    clearInterval(timer);
  }
}

/** Members of each reply. */
const operationMembers = ['id', 'state', 'done', 'skipped', 'failed'];

interface Shown {
  /** a participle */
  readonly done: string;
  readonly flags: FlagNames;
  readonly asJson: boolean | undefined;
}

/** Begins an operation and shows its progress until it ends. Throws Exit when the operation failed, or some
 *  jobs did. */
export async function runOperation(
  client: ApiClient,
  input: Readonly<Record<string, unknown>>,
  { done, flags, asJson }: Shown,
): Promise<void> {
  const path = ['v1', 'operations'];
  let { json: one, text } = await client.call<OperationJson>({
    method: 'POST',
    path,
    json: input,
    flags,
    needs: operationMembers,
  });
  const { id } = one;
  say(`dq: operation ${id}; it goes on without this command: dq op get ${id}, dq op stop ${id}`);
  const progress = startProgress(done, null);
  try {
    for (let shown = 0; one.state === 'not_started' || one.state === 'running'; ) {
      await sleep(cliLimits.operationPollMs);
      ({ json: one, text } = await client.call<OperationJson>({
        path: [...path, id],
        needs: operationMembers,
      }));
      progress.add(one.done - shown);
      shown = one.done;
    }
  } finally {
    progress.stop();
  }
  if (asJson === true) printData(text);
  const { state, skipped, failed } = one;
  if (state === 'failed') throw new Exit('failed', `operation ${id} failed: ${one.problem ?? 'unknown'}`);
  if (input['dryRun'] === true) {
    say(`dq: ${one.matched ?? 0} jobs would be ${done}`);
    return;
  }
  const counts = `${one.done} ${done}, ${skipped} left as they are, ${failed} failed`;
  if (state === 'stopped') throw new Exit('partlyFailed', `operation ${id} was stopped: ${counts}`);
  if (failed > 0) throw new Exit('partlyFailed', counts);
  say(`dq: ${counts}`);
}
