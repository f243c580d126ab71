// How many calls one notifier runs at once beside its slots, and how many file descriptors that takes.

import { limits } from './limits.ts';

export interface CallAccounts {
  /** calls of restricted topics */
  readonly probesMax: number;
  /** calls older than notifierLimits.slowCallMs */
  readonly slowMax: number;
}

/** A part of the descriptors stays for idle connections. */
const usableShare = 0.75;

/** `openFilesMax`: the limit of the notifier's process; null = unknown or none */
export function callAccounts(slots: number, openFilesMax: number | null): CallAccounts {
  const probesMax = probesOf(slots);
  const usable = openFilesMax === null ? Number.POSITIVE_INFINITY : Math.floor(openFilesMax * usableShare);
  const fitting = usable - leastDescriptors(slots);
  return { probesMax, slowMax: Math.max(0, Math.min(Math.floor(slots * limits.slowCallsPerSlot), fitting)) };
}

/** With fewer, slots and probes cannot all be used. */
export function leastDescriptors(slots: number): number {
  return limits.descriptorsBesideSlots + slots + probesOf(slots);
}

/** With fewer, the slow account is smaller than limits.slowCallsPerSlot says. */
export function fullDescriptors(slots: number): number {
  return Math.ceil((leastDescriptors(slots) + callAccounts(slots, null).slowMax) / usableShare);
}

function probesOf(slots: number): number {
  return Math.max(1, Math.floor(slots * limits.probesPerSlot));
}
