// The registry through the store's socket: one JSON call {method, args} per request. Owns the list of methods that may be
// called and which of them change something; knows no topic.

import type { Registry } from '../../registry/registry.ts';
import { StoreError, type StoreFailure } from '../job-store.ts';

/** `again`: a repeat is harmless, so a client may send it anew after a lost connection. */
export const registryMethods = {
  id: { changes: false, again: true },
  changes: { changes: false, again: true },
  get: { changes: false, again: true },
  create: { changes: true, again: false },
  update: { changes: true, again: false },
  remove: { changes: true, again: false },
  addStats: { changes: false, again: false },
  stats: { changes: false, again: true },
  tokens: { changes: false, again: true },
  createToken: { changes: true, again: false },
  removeToken: { changes: true, again: false },
  shards: { changes: false, again: true },
  writeShards: { changes: true, again: false },
} as const satisfies Partial<Record<keyof Registry, { changes: boolean; again: boolean }>>;
export type RegistryMethod = keyof typeof registryMethods;

export type Served =
  | { readonly result: unknown; readonly changed: boolean }
  /** `cause`: what nobody expected */
  | { readonly failure: StoreFailure; readonly cause?: unknown };

const refusals: readonly unknown[] = ['exists', 'full', 'changed', 'absent'];

/** Never rejects. */
export async function serveRegistry(registry: Registry | undefined, call: unknown): Promise<Served> {
  const { method, args } = Object(call) as { readonly method?: unknown; readonly args?: unknown };
  if (registry === undefined || typeof method !== 'string' || !Object.hasOwn(registryMethods, method))
    return { failure: { kind: 'not_stored', code: 'no_registry' } };
  if (!Array.isArray(args)) return { failure: { kind: 'not_stored', code: 'bad_call' } };
  const name = method as RegistryMethod;
  const run = registry[name] as (...args: unknown[]) => Promise<unknown>;
  try {
    const result = (await run.apply(registry, args)) ?? null;
    const kind = typeof result === 'object' && result !== null && 'kind' in result ? result.kind : result;
    return { result, changed: registryMethods[name].changes && !refusals.includes(kind) };
  } catch (error) {
    if (error instanceof StoreError) return { failure: error.failure };
    return { failure: { kind: 'unknown', code: 'registry_failed' }, cause: error };
  }
}
