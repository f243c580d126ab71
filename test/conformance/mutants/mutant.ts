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

/** Replaces a method; inner calls use the new one too. */
export function change<K extends Methods>(
  model: Model,
  name: K,
  build: (right: Model[K], model: Model) => Model[K],
): void {
  const right = (model[name] as (...args: never[]) => unknown).bind(model) as Model[K];
  Object.assign(model, { [name]: build(right, model) });
}

export function mutant(mistake: string, caughtBy: string, mutate: (model: Model) => void): Mutant {
  const openStore = () => {
    const model = new Model();
    mutate(model);
    return openModelStore(model);
  };
  return { mistake, caughtBy, openStore };
}
