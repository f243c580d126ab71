// The leader of the instances that were started with `standby`: the one instance that calls jobs.

export interface Leader {
  /** number of the instance; 0: none yet */
  readonly instance: number;
  /** ms by the clock of the registry; 0 or less: its time has ended */
  readonly leftMs: number;
}

export interface LeaderRow {
  leader(): Promise<Leader>;
  /** Makes this instance the leader for `leaseMs` more, unless the time of another one runs. Returns the
   *  leader. A repeat does no harm. Rejects with StoreError. */
  lead(instance: number, leaseMs: number): Promise<Leader>;
}
