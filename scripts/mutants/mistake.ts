// What a mutant is: a mistake that a test or a simulated world must find.
// Invariant (test/unit/mutants.test.ts): the text of each occurs once in its file, each title once in its
// test file, and each name in one list.

/** A text that is replaced. */
export interface Edit {
  readonly file: string;
  readonly text: string;
  readonly by: string;
}

export interface Mutant extends Edit {
  /** `title`: or a part of it, as its file has it; `%s` stands for any text */
  readonly test: { readonly file: string; readonly title: string };
}

/** A mistake that breaks a rule in a simulated world (test/sim). */
export interface SimulatedMutant extends Edit {
  /** of its worlds; default sqlite */
  readonly store?: 'sqlite' | 'redis';
  /** kinds of faults that every world has; absent: those of its seed */
  readonly faults?: string;
  /** of Redis; absent: the seed decides */
  readonly shards?: number;
  /** what operators do in its worlds (test/sim/works.ts); absent: what its seed draws */
  readonly works?: string;
}

/** By name. */
export type Mutants<M> = Readonly<Record<string, M>>;
export type Named<M> = M & { readonly name: string };

export const listOf = <M>(...lists: readonly Mutants<M>[]): readonly Named<M>[] =>
  lists.flatMap((list) => Object.entries(list).map(([name, mutant]) => ({ ...mutant, name })));

/** Mutants that have these members unless they have their own. */
export const sharing = (
  members: Partial<SimulatedMutant>,
  list: Mutants<SimulatedMutant>,
): Mutants<SimulatedMutant> =>
  Object.fromEntries(Object.entries(list).map(([name, mutant]) => [name, { ...members, ...mutant }]));

export const engine = (name: string) => `src/store/sqlite/engine/${name}.ts`;
export const notifier = (name: string) => `src/notifier/${name}.ts`;
export const script = (name: string) => `src/store/redis/scripts/lua/${name}.lua`;
