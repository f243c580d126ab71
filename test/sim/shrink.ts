// Makes a world that breaks a rule smaller: leaves out faults, pushes and verbs, as long as the rest breaks
// the same rule. First halves of all parts, then smaller groups, then single ones; and again while that
// leaves out more, because parts need each other.

import type { Plan, Result } from './world.ts';

export interface Shrunk {
  readonly plan: Plan;
  readonly result: Result;
  readonly runs: number;
}

export function shrink(plan: Plan, broken: Result, run: (plan: Plan) => Result): Shrunk {
  const rule = broken.violation?.rule;
  const without = [...(plan.without ?? [])];
  let parts = [...broken.parts];
  let runs = 0;
  const isStillBroken = (left: readonly string[]): boolean => {
    runs += 1;
    return run({ ...plan, without: [...without, ...left], kept: 0 }).violation?.rule === rule;
  };
  for (let before = parts.length + 1; parts.length < before; ) {
    before = parts.length;
    for (let size = Math.ceil(parts.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      for (let at = 0; at < parts.length; at += size) {
        const group = parts.slice(at, at + size);
        if (isStillBroken(group)) without.push(...group);
      }
      parts = parts.filter((part) => !without.includes(part));
    }
  }
  const smaller = { ...plan, without };
  return { plan: smaller, result: run(smaller), runs: runs + 1 };
}
