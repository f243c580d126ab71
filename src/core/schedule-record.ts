// A schedule as the registry stores it, and its work between two instants.

import type { MissedTicks, ScheduleTimes } from './schedule.ts';

export interface ScheduleRecord extends ScheduleTimes {
  /** 1–64 characters of A-Z a-z 0-9 . _ - */
  readonly name: string;
  readonly topic: string;
  /** text, or base64 with `isBase64` */
  readonly body: string;
  readonly isBase64: boolean;
  readonly contentType: string | null;
  readonly missed: MissedTicks;
  readonly isPaused: boolean;
  /** rises with each change */
  readonly revision: number;
  readonly updatedAt: number;
}

export interface StoredSchedule extends ScheduleRecord {
  /** epoch ms; null: none follows, or paused */
  readonly nextAt: number | null;
  /** of the last instant whose job was made; null: none was */
  readonly madeAt: number | null;
  /** why the last job was not made; null: it was */
  readonly problem: string | null;
}

/** An instant that is due, for the process that claimed it. */
export interface DueTick {
  readonly schedule: StoredSchedule;
  /** of `schedule.nextAt` */
  readonly dueAt: number;
  /** it was claimed before, or its schedule was changed: its job may exist already */
  readonly wasClaimed: boolean;
}

/** The end of a claimed instant. */
export interface TickEnd {
  readonly name: string;
  readonly dueAt: number;
  readonly revision: number;
  readonly nextAt: number | null;
  /** null: nothing was made; the earlier one stays */
  readonly madeAt: number | null;
  readonly problem: string | null;
}
