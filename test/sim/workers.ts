// The workers of a world: processes of the world in place of those that node:cluster forks. Each runs the
// real life of a worker.
// Invariant: messages arrive in order after a latency. What a process sent before its death still arrives,
// and its exit after that.

import type { Dice } from '../../scripts/dice.ts';
import type { Child, ForkOptions } from '../../src/master/workers/fork.ts';
import type { Init, RoleName, ToMaster, ToWorker } from '../../src/process/messages.ts';
import type { OwnProcess } from '../../src/process/own-process.ts';
import { runWorker, type SignalHooks } from '../../src/process/worker-life.ts';
import { StartImpossible } from '../../src/runtime/service.ts';
import type { MasterRules } from './master-rules.ts';
import type { Process } from './process.ts';
import type { Receivers } from './receivers.ts';
import { compose, type Server } from './roles.ts';
import type { Scene } from './scene.ts';

export interface Worker {
  readonly process: Process;
  readonly init: Init;
  /** its master */
  readonly master: Process;
  readonly hooks: SignalHooks;
  /** Its first lines have run: a signal does not kill it. */
  hasHandlers: boolean;
}

/** Faults of a start. `dies`: at once; `hangs`: the process never becomes ready. */
export const startFlaws = ['no fork', 'dies', 'fails', 'refuses', 'hangs'] as const;
export type StartFlaw = (typeof startFlaws)[number];

/** Why a worker refuses to start. */
const wrongConfiguration = 'a wrong configuration of the world';

/** Node loads the code of a worker. */
const loadMs = 40;
/** The master may wait so long for the last messages of a process. */
const lateExitMs = 500;

export class Workers {
  readonly servers = new Map<Process, Server>();
  /** flaws of the next starts of a role */
  readonly flaws = new Map<RoleName, { readonly flaw: StartFlaw; left: number }>();
  /** how much longer the next start of dq-store takes, ms */
  storeDownMs = 0;
  readonly #scene: Scene;
  readonly #receivers: Receivers;
  readonly #rules: MasterRules;
  readonly #dice: Dice;
  #all: readonly Worker[] = [];

  constructor(scene: Scene, receivers: Receivers, rules: MasterRules) {
    this.#scene = scene;
    this.#receivers = receivers;
    this.#rules = rules;
    this.#dice = scene.loop.stream(`${scene.prefix}workers`);
  }

  living(...roles: readonly RoleName[]): readonly Worker[] {
    return this.#all.filter(
      ({ process, init }) => process.isAlive && (roles.length === 0 || roles.includes(init.role)),
    );
  }

  /** The Fork of a master. */
  fork(master: Process, options: ForkOptions): Child {
    const { loop, prefix } = this.#scene;
    const { init } = options;
    const { role, index, incarnation } = init;
    const flaw = this.#takeFlaw(role);
    if (flaw === 'no fork') {
      this.#rules.notForked(init);
      throw new Error('spawn ENOMEM');
    }
    const process = loop.birth(`${prefix}${role}-${index}`, incarnation);
    process.instance = init.instance;
    process.isStandby = role === 'notifier' && init.config.standby;
    const hooks = { terminated: false, onTerm() {}, onReopen() {} };
    this.#rules.forked(process, init);
    const worker: Worker = { process, init, master, hooks, hasHandlers: false };
    this.#all = [...this.#all.filter((other) => other.process.isAlive), worker];
    const up = new Way(this.#scene, master, this.#dice);
    const down = new Way(this.#scene, process, this.#dice);
    const listeners: ((message: ToWorker) => void)[] = [];
    const deliver = (message: ToWorker) => {
      for (const listen of listeners) listen(message);
    };
    const send = (message: ToMaster) => {
      if (!process.sends()) return;
      const text = JSON.stringify(message);
      loop.trace.text(text);
      up.send(message.kind, () => {
        this.#rules.arrived(process, message);
        options.onMessage(JSON.parse(text) as ToMaster);
      });
    };
    const own: OwnProcess = {
      channel: {
        send,
        // A dead process learns nothing.
        sent: (message) =>
          new Promise((resolve) => {
            send(message);
            loop.after(0.01, process, 'sent', resolve);
          }),
        onMessage: (listen) => void listeners.push(listen),
        deliver,
      },
      title: process.name,
      exit(code) {
        if (process.isAlive) process.exitCode = code;
        loop.kill(process, `it exits with code ${code}`);
      },
      onCrash() {},
      onMasterGone: (listener) =>
        void master.onDeath.push(() =>
          loop.after(this.#dice.next() * 5, process, 'master is gone', listener),
        ),
      usage: () => ({ cpuMs: 0, rssBytes: 0 }),
      closeDebugger: async () => {},
      warn: (line) => loop.tell(`${process.title} writes "${line}".`),
    };
    process.onDeath.push(() => {
      this.servers.delete(process);
      const { exitCode } = process;
      const isLate = this.#dice.chance(0.1);
      up.send(
        'exit',
        () => {
          this.#rules.exited(process);
          options.onExit(exitCode, exitCode === null ? 'SIGKILL' : null);
        },
        isLate ? lateExitMs : 0,
      );
    });
    if (flaw !== 'hangs') {
      loop.after(this.#startMs(role), process, 'start', () => {
        worker.hasHandlers = true;
        if (flaw === 'dies') own.exit(134);
        else
          void runWorker(
            (received, channel, leaving) => this.#compose(process, received, channel, leaving, flaw),
            hooks,
            own,
          );
      });
    }
    return {
      pid: incarnation,
      send: (message) => {
        const text = JSON.stringify(message);
        loop.trace.text(text);
        this.#rules.sent(process, message);
        if (message.kind === 'drain') process.isLeaving = true;
        if (process.isAlive) down.send(message.kind, () => deliver(JSON.parse(text) as ToWorker));
      },
      pass() {},
      kill: () => {
        this.#rules.killed(process);
        loop.after(0, null, 'SIGKILL', () => loop.kill(process, 'its master kills it'));
      },
    };
  }

  /** Kills the processes of a dead master. */
  endLeftovers(): void {
    for (const { process } of this.living()) this.#scene.loop.kill(process, 'the next master ends it');
  }

  #compose(
    process: Process,
    init: Init,
    channel: OwnProcess['channel'],
    leaving: AbortSignal,
    flaw: StartFlaw | null,
  ): ReturnType<typeof compose> {
    if (flaw === 'fails') throw new Error('a fault of the world');
    if (flaw === 'refuses') throw new StartImpossible('configuration', wrongConfiguration);
    return compose({
      ...{ scene: this.#scene, receivers: this.#receivers, process, channel, init, leaving },
      servers: this.servers,
    });
  }

  #takeFlaw(role: RoleName): StartFlaw | null {
    const known = this.flaws.get(role);
    if (known === undefined) return null;
    known.left -= 1;
    if (known.left <= 0) this.flaws.delete(role);
    this.#scene.loop.tell(`Fault: a start of dq-${role} goes wrong: ${known.flaw}.`);
    return known.flaw;
  }

  #startMs(role: RoleName): number {
    const usual = loadMs * (1 + this.#dice.next() * 10);
    if (role !== 'store') return usual;
    const ms = usual + this.storeDownMs;
    this.storeDownMs = 0;
    return ms;
  }
}

/** Messages in one direction. Nothing overtakes. */
class Way {
  readonly #scene: Scene;
  readonly #to: Process;
  readonly #dice: Dice;
  #arrivesAt = 0;

  constructor(scene: Scene, to: Process, dice: Dice) {
    this.#scene = scene;
    this.#to = to;
    this.#dice = dice;
  }

  send(label: string, arrive: () => void, lateMs = 0): void {
    const { loop, network } = this.#scene;
    const ms = 0.2 + this.#dice.next() * 3 + network.masterMs * this.#dice.next() + lateMs;
    this.#arrivesAt = Math.max(this.#arrivesAt, loop.at + ms);
    loop.schedule(this.#to, this.#arrivesAt, label, arrive);
  }
}
