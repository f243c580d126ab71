// Reads the changes of jobs in the replies of scripts (change_of in lua/shared/numbers.lua). Scripts name
// them only to a process that writes a journal.

import type { Changed, ChangedJob } from '../../../core/job-change.ts';
import { inBatches } from '../../../core/lists.ts';
import { readSafe } from '../../../core/stored-codes.ts';
import { idOf } from '../scripts/keys.ts';

/** bytes of a change */
export const changeBytes = 29;

/** `place`: as Shards.placeOf */
export function readChange(text: Buffer, at: number, place: string): Changed {
  return {
    number: readSafe(text, at),
    place,
    version: readSafe(text, at + 7),
    origin: readSafe(text, at + 14),
    dueAt: text.readUIntBE(at + 21, 6),
    failures: text.readUInt16BE(at + 27),
  };
}

/** The member of an outcome; none in a reply without a change. */
export function changeIn(text: Buffer, place: string | null): { readonly change?: Changed } {
  return place === null || text.length === 0 ? {} : { change: readChange(text, 0, place) };
}

/** The number that this outcome has drawn for its caller; 0: none. */
export function numberIn(outcome: unknown): number {
  const { change, pushed, number, kind, version, place } = outcome as {
    readonly change?: Changed;
    readonly pushed?: { readonly version: number };
    /** of a put-back */
    readonly number?: number;
    readonly kind?: string;
    readonly version?: number;
    readonly place?: string;
  };
  if (change !== undefined) return Math.max(change.number, pushed?.version ?? 0);
  if (number !== undefined) return number;
  return kind === 'stored' && place !== undefined ? (version ?? 0) : 0;
}

/** Per item its code; a change follows the codes from 1 to 127, unless `place` is null. */
export function readCodes(
  reply: unknown,
  place: string | null,
): readonly { readonly code: number; readonly change?: Changed }[] {
  const text = reply as Buffer;
  const codes: { readonly code: number; readonly change?: Changed }[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.readUInt8(at);
    if (code === 0 || code >= 128 || place === null) codes.push({ code });
    else {
      codes.push({ code, change: readChange(text, at + 1, place) });
      at += changeBytes;
    }
  }
  return codes;
}

/** Topic, tag+id and change of each job that a step of bulk work changed. */
export function readChangedJobs(list: readonly Buffer[], place: string): readonly ChangedJob[] {
  const jobs = inBatches(list, 3) as readonly (readonly [topic: Buffer, tid: Buffer, change: Buffer])[];
  return jobs.map(([topic, tid, change]) => ({
    topic: topic.toString(),
    id: idOf(tid),
    ...readChange(change, 0, place),
  }));
}
