// The rules on the master of a world: what it forks, kills and drains, how long a reload and a stop take, and
// what it leaves in the end. It reads the messages between the master and its workers.

import type { Config } from '../../src/config/options.ts';
import { limits } from '../../src/core/limits.ts';
import { masterLimits } from '../../src/master/limits.ts';
import { exitCrashLoop, type Outcome, type Supervisor } from '../../src/master/workers/supervisor.ts';
import { readyMsOf, silentTicksOf } from '../../src/master/workers/worker-process.ts';
import type { Init, ProcessInfo, RoleName, ToMaster, ToWorker } from '../../src/process/messages.ts';
import { seconds } from './ledger.ts';
import type { Process } from './process.ts';
import type { Scene } from './scene.ts';
import type { Worker } from './workers.ts';

/** A worker, as the messages that its master has read and sent show it. Times: virtual ms. */
interface Known {
  readonly init: Init;
  readonly forkedAt: number;
  readyAt: number | null;
  takeOverAt: number | null;
  hasTakenOver: boolean;
  /** killed because it was not ready in time */
  isHung: boolean;
  /** early deaths in a row in its slot, before it */
  readonly early: number;
  /** until then a drain is in time; infinite without one */
  drainedBy: number;
  /** of the last message */
  readonly last: { at: number; pausedMs: number };
}

/** Timers run up to 1 ms early, and a deadline of running time has ten. */
const earlyMs = 20;
/** Seconds are counted in beats, and the first one may follow a message at once. After a pause of the master
 *  one beat comes late. */
const beatsMs = 3_000;
/** The end of a killed process, and the way of its messages. */
const endMs = 2_000;

const killedLate = (ms: number) => ms + 2 * limits.drainGraceMs;

/** Servers, dq-upkeep and dq-store of a generation leave one after the other. */
const leaveMsMax =
  killedLate(masterLimits.serverDrainMs) +
  killedLate(limits.mailMs) +
  killedLate(masterLimits.storeDrainMs) +
  3 * endMs;
/** Of a role that reads the registry: the longest. */
const readyMsMax = (config: Config) => readyMsOf('server', config) + endMs;
/** From the first fork on. */
const rejectMsMaxOf = (config: Config) => readyMsMax(config) + leaveMsMax;
/** The callbacks of the last reload, the start of the new workers, the end of the old ones, the take-over. */
const reloadMsMaxOf = (config: Config) =>
  killedLate(masterLimits.reloadCallbacksMs) + 2 * readyMsMax(config) + leaveMsMax;

const stopMsMax = (callbacksMs: number) =>
  killedLate(Math.max(callbacksMs, masterLimits.serverDrainMs)) +
  killedLate(masterLimits.upkeepDrainMs) +
  killedLate(masterLimits.storeDrainMs) +
  3 * endMs;

/** The latest end in a slot, until its next start. */
interface Ended {
  readonly generation: number;
  readonly at: number;
  readonly early: number;
}

interface Moment {
  readonly at: number;
  readonly pausedMs: number;
}

export class MasterRules {
  readonly #scene: Scene;
  #known = new Map<Process, Known>();
  #master: Process | null = null;
  #supervisor: Supervisor | null = null;
  #killsAll = false;
  #reload: (Moment & { readonly generation: number }) | null = null;
  /** of its first fork */
  #trial: Moment | null = null;
  /** `ready`: roles with a worker that was ready */
  #stop: (Moment & { readonly ready: ReadonlySet<string> }) | null = null;
  /** virtual ms, by role */
  #deaths = new Map<RoleName, number[]>();
  #hangs = new Map<RoleName, number>();
  /** Whether the daemon was not ready yet at the latest death. */
  #diedInStart = false;
  /** why no worker may start any more; null: the daemon goes on */
  #mustEnd: string | null = null;
  /** by role and index */
  #ended = new Map<string, Ended>();

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  daemonBegins(master: Process, supervisor: Supervisor): void {
    this.#master = master;
    this.#supervisor = supervisor;
    this.#known = new Map();
    this.#killsAll = false;
    this.#reload = null;
    this.#stop = null;
    this.#deaths = new Map();
    this.#hangs = new Map();
    this.#mustEnd = null;
    this.#ended = new Map();
  }

  daemonEnded(): void {
    this.#supervisor = null;
  }

  killsAll(): void {
    this.#killsAll = true;
  }

  // Workers

  forked(process: Process, init: Init): void {
    const { at } = this.#scene.loop;
    const early = this.#checkDelay(process, init);
    process.isOnTrial = init.isOnTrial === true;
    this.#checkConsole(init);
    const isOver = this.#mustEnd !== null && this.#supervisor?.state !== 'draining';
    this.#check(!isOver, 'a crash loop ends the daemon', () => `${process.title}: ${this.#mustEnd}`);
    this.#checkGenerations(process);
    if (process.isOnTrial) this.#trial ??= this.#moment();
    this.#known.set(process, {
      ...{
        init,
        forkedAt: at,
        readyAt: null,
        takeOverAt: null,
        hasTakenOver: !init.takesOver,
        early,
        isHung: false,
      },
      ...{ drainedBy: Number.POSITIVE_INFINITY, last: this.#moment() },
    });
    this.#happened();
  }

  /** The master reads a message. */
  arrived(process: Process, message: ToMaster): void {
    const known = this.#known.get(process);
    if (known === undefined) return;
    Object.assign(known.last, this.#moment());
    if (message.kind === 'ready') {
      known.readyAt ??= this.#scene.loop.at;
      this.#hangs.delete(known.init.role);
    } else if (message.kind === 'took_over') known.hasTakenOver = true;
    else return;
    this.#happened();
  }

  /** The master sends a message. */
  sent(process: Process, message: ToWorker): void {
    const known = this.#known.get(process);
    if (known === undefined) return;
    const { at } = this.#scene.loop;
    if (message.kind === 'take_over') known.takeOverAt ??= at;
    else if (message.kind === 'drain') {
      known.drainedBy = Math.min(known.drainedBy, at + killedLate(message.deadlineMs));
      this.#check(
        message.why !== 'reload' || !this.#isInForce(process),
        'a reload drains no worker in force',
        () => process.title,
      );
    } else return;
    this.#happened();
  }

  killed(process: Process): void {
    const known = this.#known.get(process);
    if (known === undefined || !process.isAlive || this.#killsAll) return;
    const { at } = this.#scene.loop;
    const { init, readyAt, forkedAt, takeOverAt, hasTakenOver, drainedBy, last } = known;
    const readyMs = readyMsOf(init.role, init.config) - earlyMs;
    if (at >= drainedBy - earlyMs) return;
    // Before it is awake its drain waits with its other messages.
    const isAwake = last.at > forkedAt;
    if (!isAwake && this.#infoOf(process)?.state === 'draining') return;
    if (readyAt === null) {
      const isLate = at - forkedAt >= readyMs;
      known.isHung = isLate;
      const counts = isLate && (init.role !== 'store' || this.#supervisor?.state === 'starting');
      if (counts) this.#hangs.set(init.role, (this.#hangs.get(init.role) ?? 0) + 1);
      this.#check(
        isLate || !this.#isInForce(process),
        'a start has its whole time',
        () => `${process.title} is killed after ${seconds(at - forkedAt)}`,
      );
    } else if (takeOverAt !== null && !hasTakenOver) {
      const sinceMs = at - Math.max(readyAt, takeOverAt);
      this.#check(
        sinceMs >= readyMs,
        'a take-over has its whole time',
        () => `${process.title} is killed after ${seconds(sinceMs)}`,
      );
    } else {
      const silentMs = this.#ranMs(last);
      // A beat that comes late after a pause is followed by the next one at its time.
      const pausedMs = Math.min(this.#moment().pausedMs - last.pausedMs, 2 * limits.tickMs);
      this.#check(
        silentMs >= silentTicksOf(init.role) * limits.tickMs - beatsMs - pausedMs,
        'the master kills only late and silent workers',
        () => `${process.title} has sent nothing for ${seconds(silentMs)}`,
      );
    }
  }

  exited(process: Process): void {
    const known = this.#known.get(process);
    if (known === undefined) return;
    const { at } = this.#scene.loop;
    const { init, readyAt } = known;
    const isAsked = known.drainedBy !== Number.POSITIVE_INFINITY;
    const isDrained = isAsked || (readyAt !== null && process.exitCode === 0);
    if (!isDrained && this.#isInForce(process)) this.#died(init.role, process);
    const isLong = readyAt !== null && at - readyAt > masterLimits.restartMsMax;
    const generation = this.#infoOf(process)?.generation ?? 0;
    this.#ended.set(slotOf(init), { generation, at, early: isLong || isAsked ? 0 : known.early + 1 });
    this.#happened();
  }

  /** The system makes no process. */
  notForked(init: Init): void {
    const { at } = this.#scene.loop;
    const early = (this.#endedBefore(init)?.early ?? 0) + 1;
    const generation = this.#supervisor?.generation ?? 0;
    if (init.isOnTrial !== true) this.#ended.set(slotOf(init), { generation, at, early });
    if (init.isOnTrial !== true) this.#died(init.role, null);
  }

  /** A console that has failed is started again: a start whose other workers are ready is over by then. */
  #checkConsole(init: Init): void {
    const { role, config } = init;
    if (role !== 'console' || this.#supervisor?.state !== 'starting' || !this.#ended.has(slotOf(init)))
      return;
    const ready = this.#ready();
    const waits = Object.entries(countsOf(config)).some(
      ([other, count]) => other !== 'console' && ready.filter((info) => info.role === other).length < count,
    );
    this.#check(waits, 'the daemon works without a console', () => 'its start waits for one that has failed');
  }

  /** Returns the early deaths in a row. */
  #checkDelay(process: Process, init: Init): number {
    const ended = this.#endedBefore(init);
    if (ended === undefined) return 0;
    const { restartMsMin, restartMsMax } = masterLimits;
    const leastMs = ended.early === 0 ? 0 : Math.min(restartMsMin * 2 ** (ended.early - 1), restartMsMax);
    const ms = this.#scene.loop.at - ended.at;
    this.#check(
      ms >= leastMs - earlyMs,
      'a worker that dies early is started later',
      () => `${process.title} after ${seconds(ms)} of ${seconds(leastMs)}`,
    );
    return ended.early;
  }

  /** The latest end in a slot of the generation in force. */
  #endedBefore(init: Init): Ended | undefined {
    const ended = this.#ended.get(slotOf(init));
    const isSame = init.isOnTrial !== true && ended?.generation === this.#supervisor?.generation;
    return isSame ? ended : undefined;
  }

  /** A start with a role that never works ends, and so does a daemon without one. A running daemon with a
   *  role that hangs goes on: it may wait for a server. `process`: null = not forked */
  #died(role: RoleName, process: Process | null): void {
    const { at } = this.#scene.loop;
    const died = [...(this.#deaths.get(role) ?? []), at];
    this.#deaths.set(role, died);
    const recent = died.filter((one) => at - one < limits.crashLoopWindowMs);
    const hangs = this.#hangs.get(role) ?? 0;
    const isLoop = recent.length >= masterLimits.crashLoopFailures || hangs >= masterLimits.crashLoopHangs;
    const isHung = process !== null && this.#known.get(process)?.isHung === true;
    const isAlone = !this.#ready(process).some((info) => info.role === role);
    const isStarting = this.#supervisor?.state === 'starting';
    if (this.#stop === null) this.#diedInStart = isStarting;
    const isHopeless = isStarting || (isAlone && !isHung);
    if (isLoop && isHopeless && role !== 'console')
      this.#mustEnd ??= `dq-${role} died ${recent.length} times, and hung ${hangs} times`;
  }

  // Reloads and stops

  reloadBegins(): void {
    if (this.#supervisor === null) return;
    this.#reload = { ...this.#moment(), generation: this.#supervisor.generation };
    this.#trial = null;
  }

  /** The new generation is in force. */
  reloaded(): void {
    for (const process of this.#known.keys()) process.isOnTrial = false;
  }

  /** `rejected`: null = it is in force */
  reloadEnds(rejected: string | null): void {
    const [reload, supervisor] = [this.#reload, this.#supervisor];
    if (reload === null || supervisor === null) return;
    this.#reload = null;
    const { generation } = supervisor;
    const { config } = this.#scene;
    const rejectMsMax = rejectMsMaxOf(config);
    const isStopping = this.#stop !== null;
    this.#check(
      isStopping || generation === reload.generation + (rejected === null ? 1 : 0),
      'a rejected reload changes nothing',
      () => `generation ${generation} after ${reload.generation}: ${rejected ?? 'reloaded'}`,
    );
    const named = [...(rejected ?? '').matchAll(/\bdq-\w+/g)].map(([name]) => name);
    const isOfConsole = named.length > 0 && named.every((name) => name === 'dq-console');
    this.#check(!isOfConsole, 'the daemon works without a console', () => rejected ?? '');
    const trial = this.#trial;
    if (rejected !== null && trial !== null)
      this.#check(
        this.#ranMs(trial) <= rejectMsMax,
        'a reload gives up in time',
        () => `${seconds(this.#ranMs(trial))} of ${seconds(rejectMsMax)}`,
      );
    const ranMs = this.#ranMs(reload);
    const maxMs = reloadMsMaxOf(config);
    this.#check(ranMs <= maxMs, 'a reload ends in time', () => `${seconds(ranMs)} of ${seconds(maxMs)}`);
  }

  stopBegins(): void {
    this.#stop = { ...this.#moment(), ready: new Set(this.#ready().map(({ role }) => role)) };
  }

  daemonOutcome({ exitCode, reason }: Outcome, living: readonly Worker[]): void {
    const names = living.map(({ process }) => process.title).join(', ');
    this.#check(names === '', 'a stop ends every worker', () => names);
    const stop = this.#stop;
    if (stop !== null) {
      const ranMs = this.#ranMs(stop);
      const [known] = this.#known.values();
      const maxMs = stopMsMax(known?.init.config.shutdownTimeout ?? 0);
      this.#check(ranMs <= maxMs, 'a stop ends in time', () => `${seconds(ranMs)} of ${seconds(maxMs)}`);
    }
    if (exitCode === exitCrashLoop) this.#checkGivenUp(reason ?? '');
  }

  /** Notifiers of a third generation would be too many. */
  #checkGenerations({ isOnTrial, title }: Process): void {
    const supervisor = this.#supervisor;
    if (!isOnTrial || supervisor === null) return;
    const { generation: current } = supervisor;
    const [, ...infos] = supervisor.processes();
    const others = infos.filter(({ generation }) => generation < current);
    const names = others.map(({ pid }) => `#${pid}`).join(', ');
    this.#check(
      names === '',
      'a reload waits until an earlier one is over',
      () => `${title} beside ${names}`,
    );
  }

  /** The role died too often or hung in a row, in a start or without another worker that is at work. */
  #checkGivenUp(reason: string): void {
    const { crashLoopFailures, crashLoopHangs } = masterLimits;
    const role = /dq-(\w+)/.exec(reason)?.[1] as RoleName;
    const died = this.#deaths.get(role) ?? [];
    const recent = died.filter((at) => (this.#stop?.at ?? 0) - at < limits.crashLoopWindowMs);
    const hangs = this.#hangs.get(role) ?? 0;
    this.#check(
      recent.length >= crashLoopFailures || hangs >= crashLoopHangs,
      'the daemon gives up only in a crash loop',
      () => `${recent.length} deaths, ${hangs} starts that hung: ${reason}`,
    );
    const isReady = !this.#diedInStart && this.#stop?.ready.has(role) === true;
    this.#check(role !== 'console', 'the daemon works without a console', () => reason);
    this.#check(!isReady, 'the daemon gives up only without a worker of the role', () => reason);
  }

  // The end

  /** null: each slot has a process that works, and no other process lives. */
  whyIncomplete(supervisor: Supervisor, config: Config, living: readonly Worker[]): string | null {
    const { at } = this.#scene.loop;
    const infos = supervisor.processes().slice(1);
    const pids = new Set(infos.map(({ pid }) => pid));
    for (const { process } of living)
      if (!pids.has(process.incarnation)) return `${process.title} lives, and the master does not know it`;
    for (const [process, { hasTakenOver }] of this.#known) {
      if (!process.isAlive) continue;
      if (!hasTakenOver) return `${process.title} has not taken over`;
      if (process.pausedUntil > at) return `${process.title} stands still`;
    }
    for (const { title, state, generation } of infos) {
      if (state !== 'ready') return `${title} is ${state}`;
      if (generation !== supervisor.generation) return `${title} is of generation ${generation}`;
    }
    for (const [role, count] of Object.entries(countsOf(config))) {
      const found = living.filter(({ init }) => init.role === role).length;
      if (found !== count) return `${found} of ${count} dq-${role} live`;
    }
    return null;
  }

  /** of the generation in force */
  #ready(except: Process | null = null): readonly ProcessInfo[] {
    const [, ...infos] = this.#supervisor?.processes() ?? [];
    return infos.filter(
      ({ state, generation, pid }) =>
        state === 'ready' && generation === this.#supervisor?.generation && pid !== except?.incarnation,
    );
  }

  #isInForce(process: Process): boolean {
    const info = this.#infoOf(process);
    return info !== undefined && info.generation === this.#supervisor?.generation;
  }

  #infoOf(process: Process): ProcessInfo | undefined {
    return this.#supervisor?.processes().find(({ pid }) => pid === process.incarnation);
  }

  #moment(): Moment {
    return { at: this.#scene.loop.at, pausedMs: this.#master?.pausedMs ?? 0 };
  }

  /** without the pauses of the master */
  #ranMs({ at, pausedMs }: Moment): number {
    const now = this.#moment();
    return now.at - at - (now.pausedMs - pausedMs);
  }

  #happened(): void {
    if (this.#reload !== null) this.#scene.occasions.happened('reload');
  }

  #check(isKept: boolean, rule: string, detail: () => string): void {
    this.#scene.judge.check(isKept, rule, detail);
  }
}

const slotOf = ({ role, index }: Init): string => `${role}-${index}`;

const countsOf = (config: Config): Readonly<Record<RoleName, number>> => ({
  store: 1,
  upkeep: 1,
  server: config['server.workers'],
  timer: config['timer.workers'],
  notifier: config['notifier.workers'],
  console: config['console.enabled'] ? 1 : 0,
});
