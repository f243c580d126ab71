// Makes the planned faults, overlapping where they concern different targets. Each fault is recorded when it
// begins, when its effect was seen in /proc or on the port, and when its target works again.
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, stateOf } from '../services/live-processes.ts';
import type { RedisServer } from '../services/redis.ts';
import type { ServerProcess } from '../services/server-process.ts';
import { type Daemon, type Receiver, workersEndMsMax } from './daemon.ts';
import type { EventBody, History } from './history.ts';
import type { PlannedFault } from './plan.ts';
import type { FaultyServer, StoreServers } from './stores.ts';
import { isPortClosed, waitFor } from './waiting.ts';

export interface Stack {
  readonly daemon: Daemon;
  readonly store: StoreServers;
  readonly receivers: readonly Receiver[];
  readonly history: History;
}

/** Of one effect. A reload waits for ready workers, which wait for Redis. */
const effectMsMax = 60_000;
/** dq-master waits up to 10 s before it starts a process that dies repeatedly. */
const recoveredMsMax = 90_000;

type Note = (phase: 'effective' | 'ended', seen: string) => void;

export class Nemesis {
  readonly #stack: Stack;
  /** holder count by resource; -1: held alone */
  readonly #held = new Map<string, number>();
  readonly #running = new Set<Promise<void>>();
  #made = 0;

  constructor(stack: Stack) {
    this.#stack = stack;
  }

  /** Resolves when all faults have ended, or those that had begun when `isOver` became true. */
  async run(plan: readonly PlannedFault[], isOver: () => boolean): Promise<void> {
    const from = performance.now();
    for (const planned of plan) {
      while (performance.now() - from < planned.atMs && !isOver()) await sleep(20);
      const [shared, alone] = this.#needs(planned);
      while (!this.#take(shared, alone) && !isOver()) await sleep(20);
      if (isOver()) break;
      const running = this.#make(planned).finally(() => {
        this.#release(shared, alone);
        this.#running.delete(running);
      });
      this.#running.add(running);
    }
    await Promise.all(this.#running);
  }

  /** A role fails alone; a reload and the death of the daemon concern all roles. */
  #needs({ target, what }: PlannedFault): readonly [readonly string[], readonly string[]] {
    if (target === 'daemon' || what === 'reload') return [[], ['dq']];
    if (target.startsWith('dq-')) return [['dq'], [target]];
    if (target.startsWith('redis') && this.#stack.store.isGroup) return [[], ['redis']];
    return [[], [target]];
  }

  #take(shared: readonly string[], alone: readonly string[]): boolean {
    const holders = (name: string) => this.#held.get(name) ?? 0;
    if (alone.some((name) => holders(name) !== 0) || shared.some((name) => holders(name) < 0)) return false;
    for (const name of alone) this.#held.set(name, -1);
    for (const name of shared) this.#held.set(name, holders(name) + 1);
    return true;
  }

  #release(shared: readonly string[], alone: readonly string[]): void {
    for (const name of alone) this.#held.delete(name);
    for (const name of shared) this.#held.set(name, (this.#held.get(name) ?? 1) - 1);
  }

  async #make({ what, target, holdMs }: PlannedFault): Promise<void> {
    this.#made += 1;
    const fault = this.#made;
    const note = (phase: 'begun' | 'effective' | 'ended', seen: string) =>
      this.#stack.history.add({ kind: 'fault', fault, what, target, phase, seen } satisfies EventBody);
    note('begun', `for ${holdMs} ms`);
    const server = this.#serverOf(target);
    if (what === 'reload') await this.#reload(note);
    else if (target === 'daemon') await this.#killDaemon(holdMs, note);
    else if (server?.losing !== undefined && what === 'empty') await this.#empty(server.losing, note);
    else if (server?.losing !== undefined && what === 'rollback')
      await this.#rollBack(server.losing, holdMs, note);
    else if (server !== undefined) await this.#failServer(what, server.process, holdMs, note);
    else await this.#failRole(what, target, holdMs, note);
  }

  #serverOf(target: string): FaultyServer | undefined {
    const { store, receivers } = this.#stack;
    return [...store.servers, ...receivers].find(({ name }) => name === target);
  }

  /** On live connections. */
  async #empty(server: RedisServer, note: Note): Promise<void> {
    const reply = await server.ask('FLUSHALL');
    if (reply.trim() === 'OK') note('effective', `the port ${server.port} has lost its keys`);
    await this.#untilWhole(note);
  }

  async #rollBack(server: RedisServer, holdMs: number, note: Note): Promise<void> {
    const proof = 'of-the-snapshot';
    await server.ask('SET', proof, '1');
    await server.ask('SAVE');
    const snapshot = join(server.process.directory, 'dump.rdb');
    copyFileSync(snapshot, `${snapshot}.older`);
    await server.ask('DEL', proof);
    await sleep(holdMs);
    await server.process.kill();
    copyFileSync(`${snapshot}.older`, snapshot);
    await server.process.start();
    if ((await server.ask('DEL', proof)).trim() === '1')
      note('effective', `the port ${server.port} has a key again that was removed ${holdMs} ms before`);
    // It holds its data in memory: a later kill has to lose all of it.
    for (const file of [snapshot, `${snapshot}.older`]) rmSync(file);
    await this.#untilWhole(note);
  }

  /** All workers are replaced. */
  async #reload(note: Note): Promise<void> {
    const { daemon } = this.#stack;
    const before = daemon.workers();
    process.kill(daemon.process.pid, 'SIGUSR2');
    const seen = await waitFor(
      () => daemon.workers().find(({ pid }) => before.every((worker) => worker.pid !== pid)) ?? null,
      effectMsMax,
    );
    if (seen === null) return;
    note('effective', `${seen.title} has the pid ${seen.pid}`);
    const isOver = () => before.every(({ pid }) => !isAlive(pid));
    if ((await waitFor(isOver, recoveredMsMax)) !== null) note('ended', 'all earlier workers have ended');
  }

  async #killDaemon(holdMs: number, note: Note): Promise<void> {
    const { daemon } = this.#stack;
    const workers = daemon.workers();
    const { pid } = daemon.process;
    await daemon.process.kill();
    if (!isAlive(pid)) note('effective', `the pid ${pid} has ended`);
    await sleep(holdMs);
    // As a supervisor does: some workers of the dead master may still live.
    await daemon.process.start();
    const areGone = () => workers.every((worker) => !isAlive(worker.pid));
    if ((await waitFor(areGone, workersEndMsMax)) !== null)
      note('ended', `ready with the pid ${daemon.process.pid}, all earlier workers have ended`);
  }

  async #failServer(what: string, server: ServerProcess, holdMs: number, note: Note): Promise<void> {
    const { pid } = server;
    if (what === 'freeze') {
      await server.freeze();
      if (stateOf(pid) === 'T') note('effective', `the pid ${pid} has the state T`);
      await sleep(holdMs);
      server.thaw();
    } else {
      await server.kill();
      if (!isAlive(pid) && (await isPortClosed(server.port)))
        note('effective', `the pid ${pid} has ended, the port ${server.port} is closed`);
      await sleep(holdMs);
      await server.start();
    }
    await this.#untilWhole(note);
  }

  async #untilWhole(note: Note): Promise<void> {
    const isWhole = async () => (await this.#stack.store.isWhole()) && (await this.#stack.daemon.isReady());
    if ((await waitFor(isWhole, recoveredMsMax)) !== null) note('ended', 'the daemon is ready');
  }

  async #failRole(what: string, title: string, holdMs: number, note: Note): Promise<void> {
    const { daemon } = this.#stack;
    const pid = await waitFor(() => daemon.pidOf(title), effectMsMax);
    if (pid === null) return;
    if (what === 'freeze') {
      process.kill(pid, 'SIGSTOP');
      if (await waitFor(() => stateOf(pid) === 'T', 1_000))
        note('effective', `the pid ${pid} has the state T`);
      await sleep(holdMs);
      // dq-master kills a process that is silent for long.
      if (isAlive(pid)) process.kill(pid, 'SIGCONT');
    } else {
      process.kill(pid, 'SIGKILL');
      if (await waitFor(() => !isAlive(pid), 1_000)) note('effective', `the pid ${pid} has ended`);
    }
    const works = async () => {
      const now = daemon.pidOf(title);
      if (now === null || stateOf(now) === 'T' || (what === 'kill' && now === pid)) return false;
      return (await daemon.isReady()) && now;
    };
    const now = await waitFor(works, recoveredMsMax);
    if (now !== null) note('ended', `it runs with the pid ${now}`);
  }
}
