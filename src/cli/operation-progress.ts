// Begins an operation of the daemon and shows its progress until it ends. The operation goes on when this
// program is interrupted.

import { sleep } from '../runtime/time.ts';
import type { ApiClient, FlagNames } from './daemon/api-client.ts';
import { Exit } from './exit.ts';
import { cliLimits } from './limits.ts';
import { printData, say } from './output/output.ts';
import { startProgress } from './output/progress.ts';

interface Operation {
  readonly id: string;
  readonly state: string;
  readonly matched: number | null;
  readonly done: number;
  readonly skipped: number;
  readonly failed: number;
  readonly problem: string | null;
}

const needs = ['id', 'state', 'done', 'skipped', 'failed'];

/** `done`: a participle. Throws Exit when the operation failed, or some jobs did. */
export async function runOperation(
  client: ApiClient,
  input: Readonly<Record<string, unknown>>,
  {
    done,
    flags,
    asJson,
  }: { readonly done: string; readonly flags: FlagNames; readonly asJson: boolean | undefined },
): Promise<void> {
  const path = ['v1', 'operations'];
  let { json: one, text } = await client.call<Operation>({ method: 'POST', path, json: input, flags, needs });
  const { id } = one;
  say(`dq: operation ${id}; it goes on without this command: dq op get ${id}, dq op stop ${id}`);
  const progress = startProgress(done, null);
  try {
    for (let shown = 0; one.state === 'not_started' || one.state === 'running'; ) {
      await sleep(cliLimits.operationPollMs);
      ({ json: one, text } = await client.call<Operation>({ path: [...path, id], needs }));
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
