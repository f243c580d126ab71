// Plans the faults of a run: which target fails when and for how long. The same seed gives the same plan.
import type { Dice } from '../dice.ts';
import type { FaultKind } from './history.ts';

export interface PlannedFault {
  /** since the begin of the load */
  readonly atMs: number;
  readonly what: FaultKind;
  readonly target: string;
  /** from its effect until the target is started or continued again */
  readonly holdMs: number;
}

export interface PlanOptions {
  /** `dq-notifier-0`, `redis-0`, `receiver-a` */
  readonly targets: readonly string[];
  /** those of them whose data comes back from elsewhere */
  readonly losing?: readonly string[];
  readonly lengthMs: number;
  /** mean time between the begins of two faults */
  readonly everyMs: number;
  /** A few are longer: longer than a lease. */
  readonly holdMsMax: number;
  readonly longHoldMs: number;
}

const longShare = 0.08;

/** Every fault once in a random order, then again. */
export function planFaults(dice: Dice, options: PlanOptions): readonly PlannedFault[] {
  const { targets, losing = [], lengthMs, everyMs, holdMsMax, longHoldMs } = options;
  const all: readonly (readonly [FaultKind, string])[] = [
    ['reload', 'dq-master'],
    ['kill', 'daemon'],
    ...targets.flatMap((target) => [['kill', target] as const, ['freeze', target] as const]),
    ...losing.flatMap((target) => [['empty', target] as const, ['rollback', target] as const]),
  ];
  const plan: PlannedFault[] = [];
  let left = shuffled(dice, all);
  for (let atMs = everyMs / 2; atMs < lengthMs; atMs += everyMs * (0.5 + dice.next())) {
    if (left.length === 0) left = shuffled(dice, all);
    const [what, target] = left.pop() as readonly [FaultKind, string];
    const isLong = what === 'freeze' && dice.chance(longShare);
    plan.push({ atMs, what, target, holdMs: isLong ? longHoldMs : 200 + dice.below(holdMsMax) });
  }
  return plan;
}

function shuffled<T>(dice: Dice, items: readonly T[]): T[] {
  const result = [...items];
  for (let n = result.length - 1; n > 0; n--) {
    const other = dice.below(n + 1);
    [result[n], result[other]] = [result[other] as T, result[n] as T];
  }
  return result;
}
