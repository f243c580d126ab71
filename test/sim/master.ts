// The master of a world: the real supervisor in a process of the world, over simulated forks. When it ends,
// the next one starts, as a service manager does it.

import type { Dice } from '../../scripts/dice.ts';
import type { Origins } from '../../src/config/cross-checks.ts';
import type { Config } from '../../src/config/options.ts';
import { Supervisor } from '../../src/master/workers/supervisor.ts';
import type { RoleName } from '../../src/process/messages.ts';
import { ticker } from '../../src/runtime/second-ticker.ts';
import { MasterRules } from './master-rules.ts';
import type { Process } from './process.ts';
import type { Receivers } from './receivers.ts';
import { logOf, type Server } from './roles.ts';
import type { Scene } from './scene.ts';
import { type Worker, Workers } from './workers.ts';

interface Daemon {
  readonly process: Process;
  /** null: it has not begun */
  supervisor: Supervisor | null;
}

export class Master {
  readonly workers: Workers;
  /** of its instance */
  readonly scene: Scene;
  readonly #rules: MasterRules;
  readonly #dice: Dice;
  #config: Config;
  /** what a reload and a start read; null: it is invalid */
  #onDisk: Config | null;
  /** the option of the next reload or start */
  #isStandby: boolean;
  #daemon: Daemon | null = null;
  /** how much longer the next start takes, ms */
  downMs = 0;

  constructor(scene: Scene, receivers: Receivers) {
    this.scene = scene;
    this.#dice = scene.loop.stream(`${scene.prefix}master`);
    this.#rules = new MasterRules(scene);
    this.workers = new Workers(scene, receivers, this.#rules);
    this.#isStandby = scene.lead?.isStandbyAtFirst(scene.prefix) ?? false;
    this.#config = this.#withCounts(scene.config, this.#dice);
    this.#onDisk = this.#config;
  }

  start(): void {
    const { loop } = this.scene;
    const { incarnations, instance, prefix } = this.scene;
    incarnations.masters += 1;
    const process = loop.birth(`${prefix}master`, -incarnations.masters);
    process.instance = instance;
    const daemon: Daemon = { process, supervisor: null };
    this.#daemon = daemon;
    process.onDeath.push(() => {
      this.#rules.daemonEnded();
      const waitMs = 100 + this.#dice.next() * 3_000 + this.downMs;
      this.downMs = 0;
      loop.after(waitMs, null, 'the next master', () => this.start());
    });
    loop.after(1 + this.#dice.next() * 100, process, 'start', () => this.#run(daemon));
  }

  /** Processes of this role, of all generations. */
  living(role: RoleName): readonly Worker[] {
    return this.workers.living(role);
  }

  get process(): Process | null {
    return this.#daemon?.process ?? null;
  }

  /** Those that live: the master and all workers. */
  get processes(): readonly Process[] {
    const master = this.#daemon?.process;
    const workers = this.workers.living().map(({ process }) => process);
    return master?.isAlive === true ? [...workers, master] : workers;
  }

  /** A dq-store has its file open. */
  get hasStore(): boolean {
    return this.scene.single.worker('store') !== null;
  }

  /** Servers that clients reach now. */
  get servers(): readonly Server[] {
    const { at } = this.scene.loop;
    return [...this.workers.servers.values()].filter(
      ({ process }) => process.isAlive && process.pausedUntil <= at,
    );
  }

  /** The daemon works, and no reload is under way. */
  get isInForce(): boolean {
    const supervisor = this.#daemon?.supervisor ?? null;
    if (supervisor?.state !== 'ready') return false;
    const { running, waiting } = supervisor.reloadState();
    return running === null && !waiting;
  }

  reload(): void {
    this.#ask('reload', (supervisor) => void supervisor.reload());
  }

  /** Other numbers of workers from the next reload or start on; null: an invalid file. */
  configure(dice: Dice | null): void {
    this.#onDisk = dice === null ? null : this.#withCounts(this.scene.config, dice);
  }

  /** From the next reload or start on its notifiers have the option `standby`, or have it no longer. Returns
   *  whether they have it. */
  turnStandby(): boolean {
    const { lead, config, instance } = this.scene;
    this.#isStandby = !this.#isStandby;
    if (!this.#isStandby) lead?.mayLeave(instance);
    this.#onDisk = { ...(this.#onDisk ?? config), standby: this.#isStandby };
    return this.#isStandby;
  }

  /** The file on disk is valid again. */
  mend(): void {
    this.#onDisk ??= this.#config;
  }

  /** As `dq restart` or a service manager. */
  restart(atOnce: boolean): void {
    this.#ask('stop', (supervisor) => {
      if (atOnce) supervisor.stopAtOnce();
      else supervisor.stop();
    });
  }

  /** null: every slot has a process that works, and no other process lives. */
  get whyIncomplete(): string | null {
    const supervisor = this.#daemon?.supervisor ?? null;
    if (supervisor === null || this.#daemon?.process.isAlive !== true) return 'no master works';
    if (supervisor.state !== 'ready') return `the daemon is ${supervisor.state}`;
    const { running, waiting } = supervisor.reloadState();
    if (running !== null || waiting) return 'a reload runs';
    return this.#rules.whyIncomplete(supervisor, this.#config, this.workers.living());
  }

  #ask(what: string, act: (supervisor: Supervisor) => void): void {
    const daemon = this.#daemon;
    if (daemon === null) return;
    this.scene.loop.after(0, daemon.process, what, () => {
      if (daemon.supervisor !== null) act(daemon.supervisor);
    });
  }

  #run(daemon: Daemon): void {
    const { loop, incarnations, instance } = this.scene;
    const { process } = daemon;
    const rules = this.#rules;
    this.workers.endLeftovers();
    if (this.#onDisk !== null) this.#config = this.#onDisk;
    const log = logOf(this.scene, process);
    const supervisor = new Supervisor({
      ...{ config: this.#config, instance, storeSocket: 'store.sock', adminToken: 'admin' },
      log: {
        ...log,
        notice: (message) => {
          if (message === 'killing all workers') rules.killsAll();
          log.notice(message);
        },
      },
      ticker: ticker(),
      fork: (options) => this.workers.fork(process, options),
      drawIncarnation: () => {
        incarnations.workers += 1;
        return incarnations.workers;
      },
      workerPath: () => 'worker.js',
      onFork() {},
      onExit() {},
      self: () => ({
        ...{ title: 'dq-master', role: 'master', pid: 0, version: '', generation: 1, state: 'ready' },
        ...{ startedAt: 0, restarts: 0, inFlight: 0, rssBytes: 0, cpuPercent: 0 },
      }),
      onReady: () => loop.tell('The daemon is ready.'),
      // Someone always opens a page: each console is started, as the other workers are.
      openDoor: async () => ({
        endpoint: { address: '127.0.0.1', family: 'IPv4', port: 8_088 },
        isWanted: true,
        passTo() {},
        taken() {},
        ended() {},
        close() {},
      }),
      readConfig: () =>
        this.#onDisk === null
          ? { ok: false, reason: 'the file is invalid' }
          : { ok: true, config: this.#onDisk, origins: {} as Origins, file: null, warnings: [] },
      service: {
        // Once at the end of each reload.
        ready: (status) =>
          rules.reloadEnds(status.startsWith('the last reload was rejected') ? status : null),
        reloading: () => rules.reloadBegins(),
        stopping: () => rules.stopBegins(),
      },
      onReloaded: (config) => {
        this.#config = config;
        rules.reloaded();
      },
      whyRestart: () => null,
      describeConfig: () => ({ file: null, problem: null, items: [] }),
    });
    daemon.supervisor = supervisor;
    rules.daemonBegins(process, supervisor);
    supervisor.start();
    void supervisor.ended.then((outcome) => {
      rules.daemonOutcome(outcome, this.workers.living());
      process.exitCode = outcome.exitCode;
      loop.kill(process, `the daemon has ended: ${outcome.reason ?? 'it was stopped'}`);
    });
  }

  #withCounts(config: Config, dice: Dice): Config {
    return {
      ...config,
      standby: this.#isStandby,
      'server.workers': 1 + dice.below(2),
      'notifier.workers': 1 + dice.below(2),
      'timer.workers': dice.pick([0, 1, 1, 2]),
      'console.enabled': dice.chance(0.5),
    };
  }
}
