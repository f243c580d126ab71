// A mistake that the suite must detect: the model with one changed method, and the case that then fails.

import { Model } from '../model.ts';
import { openModelStore } from '../model-store.ts';
import type { OpenStore } from '../store-under-test.ts';

export interface Mutant {
  readonly mistake: string;
  /** title of the case */
  readonly caughtBy: string;
  readonly openStore: OpenStore;
}

type Methods = {
  [K in keyof Model]: Model[K] extends (...args: never[]) => unknown ? K : never;
}[keyof Model];

type Mutation = (model: Model) => void;

/** Replaces a method; inner calls use the new one too. */
export function alter<K extends Methods>(
  model: Model,
  name: K,
  build: (right: Model[K], model: Model) => Model[K],
): void {
  const right = (model[name] as (...args: never[]) => unknown).bind(model) as Model[K];
  Object.assign(model, { [name]: build(right, model) });
}

export const change =
  <K extends Methods>(name: K, build: (right: Model[K], model: Model) => Model[K]): Mutation =>
  (model) =>
    alter(model, name, build);

export function mutant(mistake: string, caughtBy: string, mutate: Mutation): Mutant {
  const openStore = () => {
    const model = new Model();
    mutate(model);
    return openModelStore(model);
  };
  return { mistake, caughtBy, openStore };
}

/** Mistakes by the title of the case that catches them. */
export const mutants = (all: Readonly<Record<string, Readonly<Record<string, Mutation>>>>): Mutant[] =>
  Object.entries(all).flatMap(([caughtBy, mistakes]) =>
    Object.entries(mistakes).map(([mistake, mutate]) => mutant(mistake, caughtBy, mutate)),
  );
