// The instances of a world: one, or in some worlds on Redis two that share its jobs and the registry. Each
// has its own master, dq-store and files.

import type { Dice } from '../../scripts/dice.ts';
import type { RoleName } from '../../src/process/messages.ts';
import { Master } from './master.ts';
import type { Process } from './process.ts';
import type { Receivers } from './receivers.ts';
import type { Server } from './roles.ts';
import type { Scene } from './scene.ts';
import type { Worker } from './workers.ts';

export class Instances {
  readonly all: readonly Master[];

  /** `scenes`: of each instance */
  constructor(scenes: readonly Scene[], receivers: Receivers) {
    this.all = scenes.map((scene) => new Master(scene, receivers));
  }

  start(): void {
    for (const master of this.all) master.start();
  }

  /** The only one, without a choice. */
  pick(dice: Dice): Master {
    const [only] = this.all;
    return this.all.length === 1 && only !== undefined ? only : dice.pick(this.all);
  }

  /** Processes of this role, of all generations and instances. */
  living(role: RoleName): readonly Worker[] {
    return this.all.flatMap((master) => master.living(role));
  }

  /** Servers that clients reach now. */
  get servers(): readonly Server[] {
    return this.all.flatMap(({ servers }) => servers);
  }

  /** Every process of dq that lives. */
  get processes(): readonly Process[] {
    return this.all.flatMap(({ processes }) => processes);
  }

  /** null: each of them is complete. */
  get whyIncomplete(): string | null {
    for (const { whyIncomplete } of this.all) if (whyIncomplete !== null) return whyIncomplete;
    return null;
  }

  mend(): void {
    for (const master of this.all) {
      master.mend();
      master.downMs = 0;
      master.workers.storeDownMs = 0;
    }
  }
}
