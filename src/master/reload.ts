// One reload: read and check, try one new worker of every role beside the old ones, then change over, or leave everything as
// it was. Owns that procedure; processes and their order are the fleet's. Invariants: before the change-over no old worker is
// told anything, so a reload that fails has changed nothing; after it there is no way back, and whatever dies is started
// again like any worker.

import { needsRestart } from '../config/needs-restart.ts';
import type { Config } from '../config/options.ts';
import { limits } from '../core/limits.ts';
import { titleOf } from '../process/process-title.ts';
import { masterLimits } from './limits.ts';
import type { ReloadOutcome, Say } from './reload-queue.ts';
import type { Fleet } from './workers/fleet.ts';
import type { Generation } from './workers/generation.ts';

export type ReadConfig = () =>
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly string[] }
  | { readonly ok: false; readonly reason: string };

export interface ReloadOptions {
  readonly fleet: Fleet;
  /** with the flags and the environment of the start */
  readonly readConfig: ReadConfig;
  readonly makeGeneration: (config: Config) => Generation;
  /** The new generation is in force. */
  readonly onChanged: (config: Config) => void;
  readonly say: Say;
}

export class Reload {
  readonly #options: ReloadOptions;
  #failure: string | null = null;

  constructor(options: ReloadOptions) {
    this.#options = options;
  }

  /** One of the new workers cannot start, or has died. */
  failed(reason: string): void {
    this.#failure ??= reason;
    this.#options.fleet.changed();
  }

  async run(): Promise<ReloadOutcome> {
    const { fleet, readConfig, makeGeneration, say } = this.#options;
    await this.#untilOthersHaveLeft();
    if (fleet.isStopping) return stopping;
    const read = readConfig();
    if (!read.ok) return refused(read.reason);
    for (const warning of read.warnings) say(`warning: ${warning}`);
    const change = needsRestart(fleet.current.config, read.config);
    if (change !== null) return refused(`${change}: needs \`dq restart\``);

    const next = makeGeneration(read.config);
    fleet.begin(next);
    say('starting one new process of every role');
    next.startFirst();
    await this.#within(() => next.isReady('first'));
    if (fleet.isStopping) return stopping;
    if (next.isReady('first') && this.#failure === null) return this.#changeOver(next);
    const reason = this.#failure ?? `${unready(next, 'first')} not ready within ${seconds} s`;
    say('ending the new processes');
    const failed = fleet.abandon();
    // What is not ready may hang for good, and has nothing in hand but a server, which may listen already.
    for (const worker of failed.workers('store', 'upkeep', 'timer', 'notifier'))
      if (worker.state === 'starting') worker.kill();
    await fleet.drain([failed], limits.drainGraceMs, 'reload');
    return refused(reason);
  }

  async #changeOver(next: Generation): Promise<ReloadOutcome> {
    const { fleet, onChanged, say } = this.#options;
    const old = fleet.commit();
    next.startRest();
    onChanged(next.config);
    say('the new processes are at work; the old ones finish');
    await fleet.drain([old], masterLimits.reloadCallbacksMs, 'reload');
    // The new dq-store opens the file only now.
    await this.#within(() => next.isReady() && next.isInPlace());
    if (fleet.isStopping) return stopping;
    const calling = old.workers('notifier').map(({ title, pid }) => `${title} (pid ${pid})`);
    if (calling.length > 0)
      say(`${calling.join(' and ')} of before end${calling.length > 1 ? '' : 's'} with the last callback`);
    if (next.isReady() && next.isInPlace()) return { kind: 'reloaded', flaws: [] };
    return { kind: 'reloaded', flaws: [`${unready(next, 'all')} not ready yet: see the error log`] };
  }

  /** Notifiers of the reload before may still wait for a callback: with a third generation there would be too many. */
  async #untilOthersHaveLeft(): Promise<void> {
    const { fleet, say } = this.#options;
    if (fleet.leaving.length > 0) say('waiting for callbacks that began before the last reload');
    await fleet.until(() => fleet.isStopping || fleet.leaving.length === 0);
  }

  async #within(condition: () => boolean): Promise<void> {
    const { fleet } = this.#options;
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      fleet.changed();
    }, masterLimits.reloadReadyMs);
    await fleet.until(() => fleet.isStopping || isLate || this.#failure !== null || condition());
    clearTimeout(timer);
  }
}

const seconds = masterLimits.reloadReadyMs / 1_000;
const refused = (reason: string): ReloadOutcome => ({ kind: 'refused', reason });
const stopping = refused('the daemon is being stopped');

function unready(generation: Generation, which: 'first' | 'all'): string {
  const titles = generation.slots
    .filter(({ worker, index }) =>
      which === 'all'
        ? !(worker?.state === 'ready' && worker.isInPlace)
        : index === 0 && worker?.state !== 'ready',
    )
    .map(({ role, index }) => titleOf(role, index));
  return `${titles.join(', ')} ${titles.length > 1 ? 'are' : 'is'}`;
}
