// Runs one reload: reads the configuration, starts one new worker of every role beside the old ones, then
// changes over. Says what a reload would change, and what it leaves to a restart: the code of the master.
// Invariant: before the change-over no old worker gets a message, so a reload that fails changes nothing.
// After it there is no way back: a worker that dies is started again. The fleet owns the processes and the
// order in which they leave.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Origins } from '../config/cross-checks.ts';
import { needsRestart, restartOptions } from '../config/needs-restart.ts';
import { type Config, type OptionName, options } from '../config/options.ts';
import { defaultText, describeConfig, sourceOf } from '../config/show.ts';
import { limits } from '../core/limits.ts';
import { version } from '../core/version.ts';
import type { ConfigState } from '../process/messages.ts';
import { titleOf } from '../process/role.ts';
import { afterRunning, type RunningTimer } from '../runtime/timeout.ts';
import { masterLimits } from './limits.ts';
import type { ReloadOutcome, Report } from './reload-queue.ts';
import type { Fleet } from './workers/fleet.ts';
import type { Generation } from './workers/generation.ts';
import { readyMsOf } from './workers/worker-process.ts';

/** What a start or a reload has read. */
export interface ReadFacts {
  readonly config: Config;
  readonly origins: Origins;
  /** null = no file */
  readonly file: string | null;
}

export type ReadConfig = () =>
  | (ReadFacts & { readonly ok: true; readonly warnings: readonly string[] })
  | { readonly ok: false; readonly reason: string };

interface ReloadOptions {
  readonly fleet: Fleet;
  /** reads the current configuration, with the flags and the environment of the start */
  readonly readConfig: ReadConfig;
  readonly makeGeneration: (config: Config) => Generation;
  /** Opens what the master itself needs for it. One sentence: why it cannot; null = done */
  readonly prepare: (config: Config) => Promise<string | null>;
  /** called when the new generation is in force */
  readonly onChanged: (config: Config) => void;
  readonly report: Report;
}

export class Reload {
  readonly #options: ReloadOptions;
  /** How long the workers have to become ready: as at a start, where they read as many topics. For dq-store,
   *  too: before its handover it reads no file of jobs. */
  #readyMs = 0;
  #failure: string | null = null;
  #deadline: RunningTimer | null = null;

  constructor(options: ReloadOptions) {
    this.#options = options;
  }

  /** A new worker cannot start, or died. */
  failed(reason: string): void {
    this.#failure ??= reason;
    this.#options.fleet.changed();
  }

  /** A worker on trial was forked. It has the whole time to become ready: a second fork in its slot means
   *  that a signal to the process group killed the one before it. */
  forked(): void {
    this.#deadline?.refresh();
  }

  async run(): Promise<ReloadOutcome> {
    const { fleet, readConfig, makeGeneration, prepare, report } = this.#options;
    await this.#untilOthersHaveLeft();
    if (fleet.isStopping) return stopping;
    const read = readConfig();
    if (!read.ok) return refused(read.reason);
    for (const warning of read.warnings) report(`warning: ${warning}`);
    const change = needsRestart(fleet.current.config, read.config);
    if (change !== null) return refused(change);
    const why = await prepare(read.config);
    if (fleet.isStopping) return stopping;
    if (why !== null) return refused(why);

    this.#readyMs = readyMsOf('server', read.config);
    const next = makeGeneration(read.config);
    fleet.begin(next);
    report('starting one new process of every role');
    next.startFirst();
    await this.#within(() => next.isReady('first'));
    if (fleet.isStopping) return stopping;
    if (next.isReady('first') && this.#failure === null) return this.#changeOver(next);
    const reason =
      this.#failure ?? `${unready(next, 'first')} not ready within ${Math.round(this.#readyMs / 1_000)} s`;
    report('ending the new processes');
    const failed = fleet.abandon();
    // A worker that is not ready may hang for good. It holds no work, except a server and a console, which
    // may listen already.
    for (const worker of failed.workers('store', 'upkeep', 'timer', 'notifier'))
      if (worker.state === 'starting') worker.kill();
    await fleet.drain([failed], limits.drainGraceMs, 'reload');
    return refused(reason);
  }

  async #changeOver(next: Generation): Promise<ReloadOutcome> {
    const { fleet, onChanged, report } = this.#options;
    const old = fleet.commit();
    next.startRest();
    onChanged(next.config);
    report('the new processes work; the old ones finish');
    await fleet.drain([old], masterLimits.reloadCallbacksMs, 'reload');
    // The new dq-store opens the file after the old one has exited.
    await this.#within(() => next.isReady() && next.isInPlace());
    if (fleet.isStopping) return stopping;
    for (const { warnings } of next.workers('store')) for (const warning of warnings) report(warning);
    const calling = old.workers('notifier').map(({ title, pid }) => `${title} (pid ${pid})`);
    if (calling.length > 0) {
      const finish = calling.length > 1 ? 'finish their' : 'finishes its';
      report(`${calling.join(' and ')} of the previous generation ${finish} last callbacks`);
    }
    if (next.isReady() && next.isInPlace()) return { kind: 'reloaded', flaws: [] };
    return { kind: 'reloaded', flaws: [`${unready(next, 'all')} not ready yet: see the error log`] };
  }

  /** Notifiers of an earlier generation may still wait for callbacks:
   *  with a third generation there would be too many. */
  async #untilOthersHaveLeft(): Promise<void> {
    const { fleet, report } = this.#options;
    if (fleet.leaving.length > 0) report('waiting for callbacks that began before the last reload');
    await fleet.until(() => fleet.isStopping || fleet.leaving.length === 0);
  }

  async #within(condition: () => boolean): Promise<void> {
    const { fleet } = this.#options;
    let isLate = false;
    this.#deadline = afterRunning(this.#readyMs, () => {
      isLate = true;
      fleet.changed();
    });
    await fleet.until(() => fleet.isStopping || isLate || this.#failure !== null || condition());
    this.#deadline.clear();
    this.#deadline = null;
  }
}

const refused = (reason: string): ReloadOutcome => ({ kind: 'refused', reason });
const stopping = refused('the daemon is being stopped');

/** Without the console, for which a reload does not wait. */
function unready(generation: Generation, which: 'first' | 'all'): string {
  const titles = generation.slots
    .filter(
      ({ role, worker, index }) =>
        role !== 'console' &&
        (which === 'all'
          ? !(worker?.state === 'ready' && worker.isInPlace)
          : index === 0 && worker?.state !== 'ready'),
    )
    .map(({ role, index }) => titleOf(role, index, generation.config));
  return `${titles.join(', ')} ${titles.length > 1 ? 'are' : 'is'}`;
}

/** Describes the configuration for the console: the values in force with their origins, and what a reload
 *  would change. Masks secrets here, so that none of them leaves the master. `onDisk`: what a reload would
 *  read now */
export function describeState(inForce: ReadFacts, onDisk: ReturnType<ReadConfig>): ConfigState {
  const next = onDisk.ok
    ? new Map(describeConfig(onDisk.config, onDisk.origins).map((row) => [row.name, row.value]))
    : null;
  const isOther = (name: OptionName): boolean =>
    onDisk.ok && JSON.stringify(onDisk.config[name]) !== JSON.stringify(inForce.config[name]);
  return {
    file: (onDisk.ok ? onDisk.file : null) ?? inForce.file,
    problem: onDisk.ok ? null : onDisk.reason,
    items: describeConfig(inForce.config, inForce.origins).map(({ name, value, origin }) => {
      const source = sourceOf(origin);
      // Flags and environment are those of the start.
      const isFixed = source === 'flag' || source === 'environment' || options[name].only === 'flag';
      return {
        name,
        value,
        origin,
        source,
        defaultValue: defaultText(options[name]),
        needsRestart: isFixed || restartOptions.has(name),
        next: isOther(name) ? (next?.get(name) ?? null) : null,
        help: options[name].help,
      };
    }),
  };
}

/** The build on disk: a reload replaces every process but the master. Read from cli.js alone: it names all
 *  other files with their digests. */
export interface CodeOnDisk {
  readonly version: string;
  readonly digest: string;
}

/** null = there is no build, during an upgrade or for good. */
export function readCode(distDir: string): CodeOnDisk | null {
  try {
    const digest = createHash('sha256')
      .update(readFileSync(join(distDir, 'cli.js')))
      .digest('hex');
    return { version: readFileSync(join(distDir, 'version'), 'utf8').trim(), digest };
  } catch {
    // The next start of a worker reports it.
    return null;
  }
}

/** One sentence for the operator; null = the master runs the code on disk, or one of the two is unknown. */
export function whyRestart(own: CodeOnDisk | null, now: CodeOnDisk | null): string | null {
  if (own === null || now === null || own.digest === now.digest) return null;
  const which =
    now.version === version ? `another build of ${version}` : `version ${now.version}, it runs ${version}`;
  return `dq-master was not replaced (on disk is ${which}): run \`dq restart\` at a convenient time`;
}
