// What operators do in a world beside its faults: schedules (schedules.ts), operations (operations.ts),
// removals of topics (removals.ts), changes of the shard list (redis/shard-changes.ts) and the move of a
// jobs.db (redis/left-jobs.ts). A part of the worlds has them. Some actions kill dq-upkeep or dq-store in one
// of the steps that follow.
// Invariant: they draw from streams of their own, so that the rest of a world stays the same without them.

import type { Dice } from '../../scripts/dice.ts';
import { DqError } from '../../src/core/errors.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import type { Instances } from './instances.ts';
import { seconds } from './ledger.ts';
import type { Server } from './roles.ts';
import type { Scene } from './scene.ts';

export const workKinds = ['schedules', 'operations', 'removals', 'shards', 'moves'] as const;
export type WorkKind = (typeof workKinds)[number];

const share: Readonly<Record<WorkKind, number>> = {
  ...{ schedules: 0.12, operations: 0.12, removals: 0.12, shards: 0.06, moves: 0.1 },
};

/** One world of three has some. */
export function drawWorks(dice: Dice): readonly WorkKind[] {
  return workKinds.filter((kind) => dice.chance(share[kind]));
}

export interface Action {
  readonly name: string;
  /** virtual ms */
  readonly at: number;
  readonly act: (dice: Dice) => void;
}

export interface Work {
  /** while faults happen */
  plan(dice: Dice): readonly Action[];
  /** After the faults: ends what would go on for ever. */
  end(): void;
  /** null: nothing is left to do */
  readonly whyBusy: string | null;
  checkEnd(): void;
}

/** Steps in which dq-upkeep or dq-store is killed. */
const steps = [
  'claim',
  'tick',
  'end of a tick',
  'edit',
  'request',
  'stop',
  'step',
  'move',
  'removal',
] as const;
export type Step = (typeof steps)[number];

/** How operators reach a daemon: through a dq-server that works. */
export class Operators {
  readonly #scene: Scene;
  readonly #instances: Instances;
  readonly #canKill: boolean;

  /** `canKill`: the world has faults that are not harmless */
  constructor(scene: Scene, instances: Instances, canKill: boolean) {
    this.#scene = scene;
    this.#instances = instances;
    this.#canKill = canKill;
  }

  /** Runs in a process of dq-server; the story has its answer. Returns false without a dq-server. */
  ask(
    dice: Dice,
    what: string,
    act: (server: Server) => Promise<string>,
    servers: readonly Server[] = this.#instances.servers,
  ): boolean {
    const { loop } = this.#scene;
    if (servers.length === 0) return false;
    const server = dice.pick(servers);
    if (this.#canKill && dice.chance(0.3)) this.#killInStep(dice);
    loop.after(0, server.process, what, () => {
      act(server).then(
        (answer) => loop.tell(`The answer to an operator: ${what}: ${answer}.`),
        (error: unknown) => {
          if (error instanceof DqError || error instanceof StoreError)
            loop.tell(`The answer to an operator: ${what}: ${error.message}.`);
          else loop.thrown.push(error);
        },
      );
    });
    return true;
  }

  /** In one of the next steps of this kind. Some stand still instead. */
  #killInStep(dice: Dice): void {
    const { loop, occasions, network } = this.#scene;
    const step = dice.pick(steps);
    const role = dice.pick(['upkeep', 'upkeep', 'store'] as const);
    const waitMs = dice.pick([0, 0, 1, 5, 400]) * dice.next();
    let left = 1 + dice.below(3);
    const pauseMs = dice.chance(0.3) ? dice.pick([3_000, 12_000, 30_000]) * dice.next() : null;
    const what = pauseMs === null ? 'die' : `stand still for ${seconds(pauseMs)}`;
    loop.tell(`dq-${role} will ${what} at step ${left} of this kind: ${step}.`);
    occasions.add('work', (name) => {
      if (name !== step) return false;
      left -= 1;
      if (left > 0) return false;
      for (const { process } of this.#instances.living(role))
        loop.after(waitMs, null, 'a kill in a step', () => {
          if (this.#scene.isCalm()) return;
          if (pauseMs === null) loop.kill(process, `it is killed in the step "${step}"`);
          else process.pauseUntil(loop.at + pauseMs, loop.at);
          if (role === 'store') network.isSlowUntil(process.pausedUntil);
        });
      return true;
    });
  }
}
