// Serves the registry through the store's socket: one JSON call {method, args} per request. Owns the list of
// methods, and which of them change something.

import type { ChangePlace, Registry } from '../../../ports/registry.ts';
import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import type { RegistryPages } from '../owner/registry-pages.ts';

/** `again`: a repeat is harmless, so a client may send the call again after a lost connection. */
export const registryMethods = {
  id: { changes: false, again: true },
  changes: { changes: false, again: true },
  get: { changes: false, again: true },
  remains: { changes: false, again: true },
  create: { changes: true, again: false },
  update: { changes: true, again: false },
  turn: { changes: true, again: false },
  remove: { changes: true, again: false },
  addStats: { changes: false, again: false },
  stats: { changes: false, again: true },
  statsPage: { changes: false, again: true },
  putSeries: { changes: false, again: true },
  series: { changes: false, again: true },
  tokens: { changes: false, again: true },
  createToken: { changes: true, again: false },
  removeToken: { changes: true, again: false },
  useTokens: { changes: false, again: true },
  sessions: { changes: false, again: true },
  createSession: { changes: true, again: false },
  useSession: { changes: true, again: true },
  removeSessions: { changes: true, again: true },
  createSignInLink: { changes: false, again: false },
  takeSignInLink: { changes: false, again: false },
  createOperation: { changes: false, again: false },
  operations: { changes: false, again: true },
  operation: { changes: false, again: true },
  claimOperation: { changes: false, again: false },
  checkpointOperation: { changes: false, again: true },
  stopOperation: { changes: false, again: true },
  schedules: { changes: false, again: true },
  schedule: { changes: false, again: true },
  createSchedule: { changes: false, again: false },
  updateSchedule: { changes: false, again: false },
  removeSchedule: { changes: false, again: false },
  claimSchedules: { changes: false, again: false },
  endTicks: { changes: false, again: true },
  addAudit: { changes: false, again: true },
  audit: { changes: false, again: true },
  trimAudit: { changes: false, again: true },
  shards: { changes: false, again: true },
  writeShards: { changes: true, again: false },
} as const satisfies Readonly<Partial<Record<keyof Registry, { changes: boolean; again: boolean }>>>;
export type RegistryMethod = keyof typeof registryMethods;

export type Served =
  /** `text`: JSON, already encoded */
  | ({ readonly changed: boolean } & ({ readonly result: unknown } | { readonly text: Buffer }))
  /** `cause`: an unexpected error */
  | { readonly failure: StoreFailure; readonly cause?: unknown };

const refusals: readonly unknown[] = ['exists', 'full', 'changed', 'absent'];

/** Never rejects. */
export async function serveRegistry(
  registry: Registry | undefined,
  call: unknown,
  pages: RegistryPages,
): Promise<Served> {
  const { method, args } = Object(call) as { readonly method?: unknown; readonly args?: unknown };
  if (registry === undefined || typeof method !== 'string' || !Object.hasOwn(registryMethods, method))
    return { failure: { kind: 'not_stored', code: 'no_registry' } };
  if (!Array.isArray(args)) return { failure: { kind: 'not_stored', code: 'bad_call' } };
  const name = method as RegistryMethod;
  try {
    if (name === 'changes')
      return { text: await pages.page(registry, args[0] as ChangePlace), changed: false };
    const result = (await run(registry, name, args)) ?? null;
    const kind = typeof result === 'object' && result !== null && 'kind' in result ? result.kind : result;
    return { result, changed: registryMethods[name].changes && !refusals.includes(kind) };
  } catch (error) {
    if (error instanceof StoreError) return { failure: error.failure };
    return { failure: { kind: 'unknown', code: 'registry_failed' }, cause: error };
  }
}

function run(registry: Registry, name: RegistryMethod, args: readonly unknown[]): Promise<unknown> {
  const method = registry[name] as (...args: readonly unknown[]) => Promise<unknown>;
  return method.apply(registry, args as unknown[]);
}
