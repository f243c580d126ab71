// Follows the schedules of a world, as the registry stores them, and the jobs that their instants become. It
// holds the rules of the manual on them (schedules.md).

import { isTickId, tickId } from '../../src/core/job-id.ts';
import type { ScheduleRecord, TickEnd } from '../../src/core/schedule.ts';
import type { Judge } from './judge.ts';
import { type Entry, seconds } from './ledger.ts';
import type { Ledgers } from './ledgers.ts';
import type { Loop } from './loop.ts';
import type { Network } from './network.ts';
import type { Occasions } from './occasions.ts';
import type { RegistryWatch } from './registry.ts';
import { type TopicTable, topicsKnownMs } from './topics.ts';

interface Version {
  readonly record: ScheduleRecord;
  /** wall clock at the COMMIT */
  readonly wall: number;
  /** virtual ms of the COMMIT */
  readonly at: number;
}

/** From a creation to a removal. */
interface Life {
  readonly versions: Version[];
  /** wall clock of the removal */
  removedWall: number;
}

interface Claim {
  /** of the job that it makes */
  readonly settings: string;
  /** virtual ms */
  readonly at: number;
}

/** Instants that dq did not make. */
interface Skipped {
  readonly from: number;
  /** exclusive */
  readonly to: number;
}

export interface TicksOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly ledger: Ledgers;
  readonly network: Network;
  readonly occasions: Occasions;
  readonly topics: TopicTable;
}

/** An instant of longer ago was missed. */
const missedMs = 60_000;
/** A process pushes nothing so long after its claim. */
const pushMsMax = 7_500;
/** What the clock of a process differs from that of the store: half of a call. */
const clockMs = 100;
const slowClockMs = 6_000;
/** virtual ms of the first start of a store */
const usualStartMs = 2_000;

export class Ticks {
  readonly #options: TicksOptions;
  readonly #lives = new Map<string, Life[]>();
  readonly #claims: Claim[] = [];
  readonly #skipped = new Map<string, Skipped[]>();
  /** by name: instants whose job was stored */
  readonly #made = new Map<string, Set<number>>();
  readonly counts = { 'ticks stored': 0, 'ticks missed': 0, 'changes of schedules': 0 };
  readonly watch: RegistryWatch = {
    createSchedule: (result, record) => {
      if (result === 'created') this.#created(record);
    },
    updateSchedule: (result, record) => {
      if (result === 'updated') this.#changed(record);
    },
    removeSchedule: (result, name) => {
      const life = this.#living(name);
      if (result === 'removed' && life !== undefined) life.removedWall = this.#options.loop.wall;
      this.#options.occasions.happened('work', 'edit');
    },
    claimSchedules: (due) => {
      const { loop, occasions } = this.#options;
      for (const { schedule } of due) this.#claims.push({ settings: settingsOf(schedule), at: loop.at });
      if (due.length > 0) occasions.happened('work', 'claim');
    },
    endTicks: (_, ends) => {
      for (const end of ends) this.#ended(end);
      if (ends.length > 0) this.#options.occasions.happened('work', 'end of a tick');
    },
  };

  constructor(options: TicksOptions) {
    this.#options = options;
    options.ledger.listen({ pushed: (entry) => this.#pushed(entry) });
  }

  /** names of the schedules */
  get living(): readonly string[] {
    return [...this.#lives.keys()].filter((name) => this.#living(name) !== undefined);
  }

  /** Between the first and the last instant that was made none is missing. */
  checkEnd(): void {
    const { ledger, judge } = this.#options;
    if (ledger.steps > 0 || ledger.losses > 0) return;
    for (const [name, lives] of this.#lives)
      for (const { versions, removedWall } of lives)
        for (const [n, version] of versions.entries()) {
          const last = this.#lastMade(name, versions[0]?.wall ?? 0, removedWall);
          const until = Math.min(versions[n + 1]?.record.updatedAt ?? removedWall, last);
          const from = Math.max(version.wall, version.record.updatedAt) + this.#clockMs;
          for (const at of instantsOf(version.record, from, until - this.#clockMs))
            judge.check(
              this.#made.get(name)?.has(at) === true || this.#isSkipped(name, at),
              'schedules: no instant is left out',
              () => `${tickId(name, at)}, version ${version.record.revision}`,
            );
        }
  }

  #isSkipped(name: string, at: number): boolean {
    return this.#skipped.get(name)?.some(({ from, to }) => at >= from && at < to) === true;
  }

  #lastMade(name: string, from: number, until: number): number {
    const made = [...(this.#made.get(name) ?? [])].filter((at) => at >= from && at <= until);
    return Math.max(Number.NEGATIVE_INFINITY, ...made);
  }

  #living(name: string): Life | undefined {
    return this.#lives.get(name)?.find(({ removedWall }) => removedWall === Number.POSITIVE_INFINITY);
  }

  get #clockMs(): number {
    const { network, ledger } = this.#options;
    return network.slowUntil > 0 || ledger.startedAt > usualStartMs ? slowClockMs : clockMs;
  }

  #created(record: ScheduleRecord): void {
    const life = { versions: [], removedWall: Number.POSITIVE_INFINITY };
    this.#lives.set(record.name, [...(this.#lives.get(record.name) ?? []), life]);
    this.#changed(record);
  }

  #changed(record: ScheduleRecord): void {
    const { loop, occasions } = this.#options;
    this.counts['changes of schedules'] += 1;
    this.#living(record.name)?.versions.push({ record, wall: loop.wall, at: loop.at });
    occasions.happened('work', 'edit');
  }

  #pushed({ id, topic, body }: Readonly<Entry>): void {
    if (!isTickId(id)) return;
    const { occasions, judge, loop, ledger } = this.#options;
    const [, name = '', ...rest] = id.split(':');
    const at = Date.parse(rest.join(':'));
    this.counts['ticks stored'] += 1;
    const made = this.#made.get(name) ?? new Set();
    this.#made.set(name, made.add(at));
    const lives = this.#lives.get(name) ?? [];
    const versions = lives.flatMap((life) => life.versions);
    const settings = settingsOf({ topic, body: body.toString('latin1') });
    judge.check(
      versions.some(({ record }) => settingsOf(record) === settings),
      'schedules: a tick has the settings of one version',
      () => `${id}: ${settings}`,
    );
    judge.check(
      ledger.steps > 0
        ? versions.some(({ record }) => isInstant(record, at))
        : lives.some((life) => this.#isOf(life, at)),
      'schedules: a tick is one of the times in force',
      () => `${id}: ${versions.map(({ record, wall }) => timesText(record, wall)).join('; ')}`,
    );
    this.#checkClaim(id, settings);
    judge.check(
      ledger.steps > 0 || at <= loop.wall + this.#clockMs,
      'schedules: no tick is early',
      () => `${id} ${seconds(at - loop.wall)} early`,
    );
    occasions.happened('work', 'tick');
  }

  /** By a claim that found these settings, a short time ago. */
  #checkClaim(id: string, settings: string): void {
    const { loop, judge, network } = this.#options;
    const last = this.#claims.filter((claim) => claim.settings === settings).at(-1);
    judge.check(last !== undefined, 'schedules: a tick is claimed', () => id);
    if (last === undefined || network.slowUntil >= last.at || this.#options.ledger.startedAt > last.at)
      return;
    judge.check(
      loop.at - last.at <= pushMsMax + clockMs,
      'schedules: no tick is made long after its claim',
      () => `${id}, claimed ${seconds(loop.at - last.at)} ago`,
    );
  }

  /** Whether it is an instant of a version, after the change to it and before the next one. */
  #isOf({ versions, removedWall }: Life, at: number): boolean {
    const slackMs = this.#clockMs;
    return versions.some(({ record }, n) => {
      const until = versions[n + 1]?.wall ?? removedWall;
      const isInForce = at > record.updatedAt - slackMs && at <= until + slackMs;
      return isInForce && !record.isPaused && isInstant(record, at);
    });
  }

  #ended({ name, dueAt, nextAt, madeAt, problem }: TickEnd): void {
    const { ledger, judge, loop, topics } = this.#options;
    if (madeAt !== null) {
      const id = tickId(name, madeAt);
      judge.check(
        ledger.losses > 0 || ledger.stored.has(id) || ledger.lost.has(id),
        'schedules: an instant counts as made when its job is stored',
        () => id,
      );
    }
    const to = madeAt ?? nextAt ?? Number.POSITIVE_INFINITY;
    if (to <= dueAt || ledger.steps > 0) return;
    this.#skipped.set(name, [...(this.#skipped.get(name) ?? []), { from: dueAt, to }]);
    const lateMs = loop.wall - dueAt;
    const isMissed = madeAt !== null || problem?.startsWith('missed') === true;
    this.counts['ticks missed'] += 1;
    const topic = this.#living(name)?.versions.at(-1)?.record.topic;
    const isTaken =
      topic !== undefined && topics.isReadSoon && topics.isSteady(topic, loop.at - topicsKnownMs);
    judge.check(
      isMissed ? lateMs > missedMs - this.#clockMs : !isTaken,
      isMissed
        ? 'schedules: an instant is missed after a minute'
        : 'schedules: a known topic takes the ticks',
      () => `${tickId(name, dueAt)} after ${seconds(lateMs)}: ${problem}`,
    );
  }
}

/** The body names the schedule. */
const settingsOf = ({ topic, body }: Pick<ScheduleRecord, 'topic' | 'body'>): string => `${topic}: ${body}`;

/** A second reading of the times of the worlds. */
function isInstant({ cron, everyMs, timezone, createdAt }: ScheduleRecord, at: number): boolean {
  if (everyMs !== null) return (at - createdAt) % everyMs === 0;
  const [minute = '', hour = ''] = (cron ?? '').split(' ');
  const [atHour = Number.NaN, atMinute = Number.NaN] = localTime(at, timezone);
  const isMinute = minute === '*' || (minute === '*/2' ? atMinute % 2 === 0 : atMinute === Number(minute));
  return at % 60_000 === 0 && isMinute && (hour === '*' || atHour === Number(hour));
}

const formats = new Map<string, Intl.DateTimeFormat>();

function localTime(at: number, timeZone: string): readonly number[] {
  const format =
    formats.get(timeZone) ??
    new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  formats.set(timeZone, format);
  return format.format(at).split(':').map(Number);
}

/** After `from`, until `until`. */
function* instantsOf(record: ScheduleRecord, from: number, until: number): Generator<number> {
  if (record.isPaused) return;
  const { everyMs, createdAt } = record;
  const stepMs = everyMs ?? 60_000;
  const origin = everyMs === null ? 0 : createdAt;
  for (let at = origin + stepMs * (Math.floor((from - origin) / stepMs) + 1); at <= until; at += stepMs)
    if (isInstant(record, at)) yield at;
}

function timesText({ cron, everyMs, timezone, isPaused, updatedAt }: ScheduleRecord, wall: number): string {
  const times = everyMs === null ? `${cron} ${timezone}` : `every ${everyMs} ms`;
  return `${times}${isPaused ? ', paused' : ''}, since ${updatedAt}, stored at ${wall}`;
}
