// The leader of the instances that were started with `standby`: the one instance that calls jobs. It leads as
// long as one of its processes renews its time.

import type { Owner } from '../core/job.ts';

export interface Leader {
  /** number of the instance; 0: none yet */
  readonly instance: number;
  /** ms by the clock of the registry; 0 or less: its time has ended */
  readonly leftMs: number;
}

export interface LeaderRow {
  leader(): Promise<Leader>;
  /** Makes the instance of this process the leader for `leaseMs` more, unless the time of another one runs.
   *  Returns the leader. A repeat does no harm. Rejects with StoreError. */
  lead(process: Owner, leaseMs: number): Promise<Leader>;
  /** This process calls jobs no more. Ends the time of its instance, unless another process of the instance
   *  has renewed it; never ends that of a successor. A repeat does no harm. Rejects with StoreError. */
  giveUp(process: Owner): Promise<void>;
}
