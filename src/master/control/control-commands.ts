// Runs the commands that reach the master by the control socket or by a signal: status, stop, reload,
// restart, reopen logs.
// Remembers whether the daemon is started again after the stop:
// true after `dq restart`, false after any later stop.

import type { Config } from '../../config/options.ts';
import { messageOf } from '../../core/errors.ts';
import { version } from '../../core/version.ts';
import type { OpenLog } from '../../telemetry/log.ts';
import type { DataDirectory } from '../data/data-directory.ts';
import type { ReadConfig } from '../reload.ts';
import { ownShare } from '../workers/process-table.ts';
import type { Supervisor } from '../workers/supervisor.ts';
import type { ControlAnswer, DaemonStatus } from './control-protocol.ts';

/** Exit code of `dq reload`: the configuration is in force, but something does not work yet (cli/exit.ts). */
const exitPartly = 5;

interface ControlOptions {
  readonly supervisor: Supervisor;
  readonly data: DataDirectory;
  readonly log: OpenLog;
  /** in force */
  readonly config: () => Config;
  /** one sentence: why no start would follow, whatever the configuration; null = it depends */
  readonly whyNeverRestart: () => string | null;
  /** one sentence: why a start with the current configuration would fail; null = it would be tried */
  readonly whyNotRestart: () => Promise<string | null>;
  /** as after a restart */
  readonly previewConfig: ReadConfig;
  /** one sentence: the code on disk is newer than the master's; null = it is not */
  readonly whyRestart: () => string | null;
}

export class ControlCommands {
  readonly #options: ControlOptions;
  #startsAgain = false;
  #isMoving = false;

  constructor(options: ControlOptions) {
    this.#options = options;
  }

  get startsAgain(): boolean {
    return this.#startsAgain;
  }

  url(): string | null {
    return this.#options.supervisor.url;
  }

  async status(): Promise<DaemonStatus> {
    const { supervisor, data } = this.#options;
    const measured = supervisor
      .processes()
      .map(async (info) => ({ ...info, pssBytes: await ownShare(info.pid) }));
    return {
      version,
      state: supervisor.state,
      startedAt: data.startedAt,
      url: supervisor.url,
      console: supervisor.console?.url ?? null,
      compat: supervisor.compat,
      dataDir: data.path,
      durability: supervisor.durability,
      noDeliveries: supervisor.noDeliveries,
      leadership: supervisor.leadership,
      processes: await Promise.all(measured),
    };
  }

  /** Begins a stop. timeoutMs: undefined = shutdownTimeout */
  stop(timeoutMs?: number): void {
    this.#startsAgain = false;
    this.#options.supervisor.stop(timeoutMs);
  }

  stopAtOnce(): void {
    this.#startsAgain = false;
    this.#options.supervisor.stopAtOnce();
  }

  /** Resolves with the exit code of the command. */
  async reload(answer: (answer: ControlAnswer) => void = () => {}): Promise<number> {
    const { supervisor, whyRestart, previewConfig } = this.#options;
    const next = previewConfig();
    if (next.ok) answer({ file: next.file });
    const report = (message: string): void => answer({ message });
    const outcome = await supervisor.reload(report);
    if (outcome.kind === 'refused') {
      answer({ refused: outcome.reason });
      return 1;
    }
    for (const flaw of outcome.flaws) report(flaw);
    report(`reloaded: generation ${supervisor.generation}`);
    const restart = whyRestart();
    if (restart !== null) report(restart);
    return outcome.flaws.length === 0 ? 0 : exitPartly;
  }

  /** Begins a stop with a start after it; returns why not, or null. */
  async restart(answer: (answer: ControlAnswer) => void): Promise<string | null> {
    const { supervisor, data, log, whyNotRestart, previewConfig } = this.#options;
    const why = await whyNotRestart();
    if (why !== null) return why;
    if (supervisor.state === 'draining') return 'the daemon is being stopped';
    const next = previewConfig();
    if (next.ok) answer({ file: next.file });
    if (next.ok && next.config.dataDir !== data.path) answer({ dataDir: next.config.dataDir });
    log.notice('restarting');
    this.#startsAgain = true;
    supervisor.stop();
    return null;
  }

  /** Copies the registry, then as restart(). `ends` false: MySQL is in force already, and nothing ends. */
  async move(): Promise<{ readonly refused: string } | { readonly ends: boolean }> {
    const { supervisor, data, log, config, whyNeverRestart, previewConfig } = this.#options;
    const read = previewConfig();
    if (!read.ok) return { refused: read.reason };
    const { dataDir } = read.config;
    if (dataDir !== data.path)
      return { refused: `dataDir is now ${dataDir}, and the data is in ${data.path}: set it back` };
    if (supervisor.state !== 'ready') return { refused: 'the daemon is starting or being stopped' };
    // With MySQL in force the copy needs no restart.
    const never = config()['mysql.url'] === '' ? whyNeverRestart() : null;
    if (never !== null) return { refused: never };
    if (this.#isMoving) return { refused: 'another dq move copies the registry' };
    log.notice('move: copies the registry to MySQL');
    this.#isMoving = true;
    const refused = await this.#copyRegistry(read.config['mysql.url']);
    this.#isMoving = false;
    if (refused === null) log.notice('move: the registry is in MySQL');
    else log.error(`move: ${refused.refused}`);
    return refused ?? { ends: this.#startsAgain };
  }

  /** null: done, and a restart has begun where it is needed. */
  async #copyRegistry(url: string): Promise<{ readonly refused: string } | null> {
    const { supervisor } = this.#options;
    try {
      const { why, isInForce } = await supervisor.moveRegistry(url, 'copy');
      if (why !== null) return { refused: why };
      const refused = isInForce ? null : await this.restart(() => {});
      if (refused === null) return null;
      await supervisor.moveRegistry(url, 'undo');
      return { refused };
    } catch (error) {
      // Lost with a dq-store that has ended: the next one takes changes.
      await supervisor.moveRegistry(url, 'undo').catch(() => {});
      return { refused: `${messageOf(error)}; registry.db stays in force: run dq move again` };
    }
  }

  reopenLogs(): void {
    this.#options.log.reopen();
    this.#options.supervisor.reopenLogs();
  }
}
