// Reads the limit of open files of this process, and computes how many calls a notifier runs beside its slots
// within it. Children inherit the limit.

import { readFileSync } from 'node:fs';
import { limits } from '../core/limits.ts';

/** The soft limit; null without /proc. */
export function openFilesMax(): number | null {
  try {
    const match = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    return match === null ? null : Number(match[1]);
  } catch {
    return null; // not Linux
  }
}

interface CallAccounts {
  /** calls of restricted topics */
  readonly probesMax: number;
  /** calls older than notifierLimits.slowCallMs */
  readonly slowMax: number;
}

/** The rest of the descriptors is for idle connections. */
const usableShare = 0.75;

/** `openFilesMax`: limit of the notifier's process; null = unknown or unlimited */
export function callAccounts(slots: number, openFilesMax: number | null): CallAccounts {
  const probesMax = probesOf(slots);
  const usable = openFilesMax === null ? Number.POSITIVE_INFINITY : Math.floor(openFilesMax * usableShare);
  const fitting = usable - leastDescriptors(slots);
  return { probesMax, slowMax: Math.max(0, Math.min(Math.floor(slots * limits.slowCallsPerSlot), fitting)) };
}

/** Fewer descriptors do not suffice for all slots and probes. */
export function leastDescriptors(slots: number): number {
  return limits.descriptorsBesideSlots + slots + probesOf(slots);
}

/** Fewer descriptors reduce the slow calls below limits.slowCallsPerSlot. */
export function fullDescriptors(slots: number): number {
  return Math.ceil((leastDescriptors(slots) + callAccounts(slots, null).slowMax) / usableShare);
}

function probesOf(slots: number): number {
  return Math.max(1, Math.floor(slots * limits.probesPerSlot));
}
