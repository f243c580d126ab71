// The MySQL of the journal in a world: the port of the journal's database over tables in memory, with a clock
// of its own. A method of several statements, or of several reads, can be interrupted between them; one of
// one transaction happens in one step.
// Left out: the SQL (test/role/journal-mysql.test.ts).

import type { Dice } from '../../../scripts/dice.ts';
import type { JobKey } from '../../../src/core/job.ts';
import { type Change, isRestorable, type JobRow, mergeRows, rowOf } from '../../../src/core/job-change.ts';
import {
  allBarriers,
  type JournalDb,
  type JournalInstance,
  noCounts,
  type RestoreState,
  type RestoreWork,
  type ShippedBatch,
  type ShippedRange,
} from '../../../src/ports/journal.ts';
import { isBefore, type StreamPosition, streamStart } from '../../../src/ports/spool.ts';
import { StoreError } from '../../../src/ports/store-error.ts';
import type { Loop } from '../loop.ts';
import type { Process } from '../process.ts';

/** `away`: it refuses connections. `slow`: a statement takes seconds. `failing`: connections break before,
 *  between and after statements. */
export type MysqlMood = 'works' | 'away' | 'slow' | 'failing';

interface Claimed extends RestoreState {
  readonly claimedBy: number | null;
  readonly claimedUntil: number;
}
type Instance = Omit<JournalInstance, 'ageMs'> & { readonly seenAt: number };
interface Logged extends JobKey {
  readonly number: number;
  readonly place: string;
}

interface Tables {
  rows: Map<string, JobRow>;
  /** by number */
  log: Logged[];
  positions: Map<string, StreamPosition>;
  marks: Map<string, number>;
  instances: Map<number, Instance>;
  works: Claimed[];
  barrier: number;
  since: number;
}

/** Rows of a page: few, so that a healing has several. */
const pageRows = 4;
const epochMs = 1_800_000_000_000;
const slowMsMax = 6_000;
const failedShare = 0.1;
const nameOf = ({ topic, id }: JobKey): string => `${topic}/${id}`;
const failure = (code: string) => new StoreError({ kind: 'unknown', code });

export class SimMysql {
  readonly #loop: Loop;
  readonly #dice: Dice;
  #tables: Tables = {
    ...{ rows: new Map(), log: [], positions: new Map(), marks: new Map(), instances: new Map(), works: [] },
    ...{ barrier: 0, since: 0 },
  };
  #works = 0;
  mood: MysqlMood = 'works';

  constructor(loop: Loop) {
    this.#loop = loop;
    this.#dice = loop.stream('mysql');
  }

  /** changes of a stream that it has */
  shippedOf(instance: number, incarnation: number): number {
    return this.#tables.positions.get(`${instance}.${incarnation}`)?.offset ?? 0;
  }

  /** Returns what brings this moment back, as a backup that is restored. */
  copy(): () => void {
    const copied = copyOf(this.#tables);
    return () => {
      this.#tables = copyOf(copied);
    };
  }

  /** The connections of one process. */
  clientOf(process: Process): JournalDb & { close(): Promise<void> } {
    /** One statement or transaction. */
    const step = <T>(act: () => T): Promise<T> =>
      new Promise((resolve, reject) => {
        const { mood } = this;
        const dice = this.#dice;
        const usualMs = 0.2 + dice.next() * 3;
        const ms = mood === 'slow' ? dice.next() * slowMsMax : usualMs;
        const reply = (answer: () => void) => this.#loop.after(ms / 2, process, 'reply of MySQL', answer);
        const fail = (code: string) => reply(() => reject(failure(code)));
        if (!process.sends()) return;
        if (mood === 'away') {
          fail('unreachable');
          return;
        }
        const breaks = mood === 'failing' && dice.chance(2 * failedShare);
        if (breaks && dice.chance(0.5)) {
          fail('lost');
          return;
        }
        // A statement of a client that dies meanwhile runs, too.
        this.#loop.after(ms / 2, null, 'statement', () => {
          if (this.mood === 'away' || breaks) {
            if (breaks) act();
            fail('lost');
            return;
          }
          const result = act();
          reply(() => resolve(result));
        });
      });
    return { ...this.#reads(step), ...this.#writes(step), close: async () => {} };
  }

  get #now(): number {
    return Math.floor(epochMs + this.#loop.at);
  }

  #reads(step: Step): Pick<JournalDb, Reads> {
    const ordered = (state: 'waiting' | 'dead') =>
      [...this.#tables.rows.values()]
        .filter((row) => row.state === state)
        .sort((a, b) => a.orderAt - b.orderAt || (nameOf(a) < nameOf(b) ? -1 : 1));
    const rowsOf = (keys: readonly JobKey[], bodies = true) =>
      keys.flatMap((key) => {
        const row = this.#tables.rows.get(nameOf(key));
        if (row === undefined) return [];
        if (bodies || row.pushed === null) return row;
        return { ...row, pushed: { ...row.pushed, body: Buffer.alloc(0) } };
      });
    /** after a cursor: number of examined rows, which others may change meanwhile */
    const page = <T extends JobRow>(all: readonly T[], cursor: string | null) => {
      const [orderAt = 0, name = ''] = cursor === null ? [] : (JSON.parse(cursor) as [number, string]);
      const left = all.filter(
        (row) => cursor === null || row.orderAt > orderAt || (row.orderAt === orderAt && nameOf(row) > name),
      );
      const found = left.slice(0, pageRows);
      const last = found.at(-1);
      const nextCursor =
        left.length > pageRows && last !== undefined ? JSON.stringify([last.orderAt, nameOf(last)]) : null;
      return { found, nextCursor };
    };
    return {
      positions: (instance) =>
        step(() =>
          [...this.#tables.positions].flatMap(([name, at]) => {
            const [its, incarnation] = name.split('.').map(Number);
            return its === instance ? { instance, incarnation: incarnation ?? 0, ...at } : [];
          }),
        ),
      marks: () =>
        step(() =>
          [...this.#tables.marks].map(([name, number]) => {
            const [instance, place = ''] = name.split(' ');
            return { instance: Number(instance), place, number };
          }),
        ),
      rows: (keys, bodies) => step(() => rowsOf(keys, bodies)),
      open: async (state, places, cursor) => {
        const { found, nextCursor } = await step(() => page(ordered(state), cursor));
        const keys = found.filter(({ place }) => places.includes(place));
        return { rows: await step(() => rowsOf(keys)), nextCursor };
      },
      openKeys: (state, filter, cursor) =>
        step(() => {
          const {
            topic,
            since = 0,
            until = Number.MAX_SAFE_INTEGER,
            acceptedFrom,
            isRestorable: is,
          } = filter;
          const { found, nextCursor } = page(ordered(state), cursor);
          const wanted = found.filter(
            (row) =>
              row.orderAt >= since &&
              row.orderAt < until &&
              (topic === undefined || row.topic === topic) &&
              (acceptedFrom === undefined || (row.pushed?.acceptedAt ?? 0) >= acceptedFrom) &&
              (is !== true || isRestorable(row)),
          );
          return {
            keys: wanted.map(({ topic: its, id, version }) => ({ topic: its, id, version })),
            nextCursor,
          };
        }),
      changedAbove: async (from, places, cursor, more = {}) => {
        const { upTo = Number.MAX_SAFE_INTEGER, bodies = true } = more;
        const after = cursor === null ? from : Number(cursor);
        const changes = await step(() =>
          this.#tables.log
            .filter(({ number }) => number > after && number <= upTo)
            .sort((a, b) => a.number - b.number)
            .slice(0, pageRows),
        );
        const last = changes.at(-1);
        const isFull = changes.length === pageRows && last !== undefined;
        const whole = isFull ? changes.filter(({ number }) => number < last.number) : changes;
        const wanted = new Map(
          whole.filter(({ place }) => places.includes(place)).map((each) => [nameOf(each), each]),
        );
        const rows = await step(() => rowsOf([...wanted.values()], bodies));
        return { rows, nextCursor: isFull ? String(last.number - 1) : null };
      },
      oldestChange: () =>
        step(() =>
          this.#tables.log.length === 0 ? null : Math.min(...this.#tables.log.map(({ number }) => number)),
        ),
      flow: () => step(() => []),
      restores: (limit, kind) =>
        step(() =>
          this.#tables.works
            .filter((work) => (kind === undefined ? work.kind !== 'survey' : work.kind === kind))
            .toReversed()
            .slice(0, limit),
        ),
      instances: () =>
        step(() =>
          [...this.#tables.instances.values()].map(({ seenAt, ...its }) => ({
            ...its,
            ageMs: this.#now - seenAt,
          })),
        ),
      since: () => step(() => this.#tables.since),
    };
  }

  #writes(step: Step): Omit<JournalDb, Reads> {
    return {
      ship: (batch) => step(() => this.#ship(batch)),
      forgetStreams: async (streams) => {
        for (const { instance, incarnation } of streams)
          await step(() => this.#tables.positions.delete(`${instance}.${incarnation}`));
      },
      beginRestore: (work) => step(() => this.#begin(work)),
      beginShipped: async (ranges) => {
        for (const range of ranges) await step(() => this.#beginShipped([range]));
      },
      beginSurvey: async (shard, everyMs, againMs) => {
        await step(() => this.#begin({ kind: 'survey', about: shard, note: 0 }));
        await step(() =>
          this.#change(
            (work) => {
              const isOpen = work.state === 'open';
              const isOld = (!isOpen || everyMs === 0) && work.begunAt <= this.#now - everyMs;
              const isUnrecorded =
                !isOpen && work.begunAt < this.#tables.since && (work.endedAt ?? 0) <= this.#now - againMs;
              return work.kind === 'survey' && work.about === shard && (isOld || isUnrecorded);
            },
            () => ({
              ...{ state: 'open', cursor: null, counts: noCounts, claimedBy: null, claimedUntil: 0 },
              ...{ endedAt: null, begunAt: this.#now },
            }),
          ),
        );
      },
      claimRestore: (worker, forMs, of = 'restore') =>
        step(() => {
          const now = this.#now;
          const open = this.#tables.works.filter(
            ({ state, claimedUntil, kind }) =>
              state === 'open' && claimedUntil <= now && (kind === 'survey') === (of === 'survey'),
          );
          const [first] = open.sort(
            (a, b) => Number(a.kind === 'shipped') - Number(b.kind === 'shipped') || a.no - b.no,
          );
          if (first === undefined) return null;
          this.#change(
            ({ no }) => no === first.no,
            () => ({ claimedBy: worker, claimedUntil: now + forMs }),
          );
          return { ...first, ageMs: now - first.begunAt };
        }),
      saveRestore: ({ no, cursor, counts }, worker, forMs) =>
        step(
          () =>
            this.#change(
              (work) => work.no === no && work.state === 'open' && work.claimedBy === worker,
              () => ({ cursor, counts, claimedUntil: this.#now + forMs }),
            ) > 0,
        ),
      endRestore: ({ no, counts }, worker, as) =>
        step(
          () =>
            this.#change(
              (work) => work.no === no && work.state === 'open' && work.claimedBy === worker,
              () => ({ state: as, counts, endedAt: this.#now }),
            ) > 0,
        ),
      seen: (self, shipped = new Map()) =>
        step(() => {
          for (const [incarnation, at] of shipped) {
            const found = this.#tables.positions.get(`${self.instance}.${incarnation}`);
            if (isBefore(found ?? streamStart, at)) return null;
          }
          const known = this.#tables.instances.get(self.instance);
          const before = known?.barrier === allBarriers ? 0 : (known?.barrier ?? 0);
          this.#tables.instances.set(self.instance, {
            ...self,
            barrier: Math.max(before, self.barrier),
            highest: Math.max(known?.highest ?? 0, self.highest),
            seenAt: this.#now,
          });
          return this.#tables.barrier;
        }),
      begins: (instance) =>
        step(() => {
          const known = this.#tables.instances.get(instance);
          if (known?.barrier === allBarriers) this.#tables.instances.set(instance, { ...known, barrier: 0 });
        }),
      giveUp: () => step(() => []),
      raiseBarrier: () =>
        step(() => {
          this.#tables.barrier = Math.max(this.#tables.barrier + 1, this.#now);
          return this.#tables.barrier;
        }),
      raiseSince: (to) =>
        step(() => {
          this.#tables.since = Math.max(this.#tables.since, to);
        }),
      trim: () => step(() => false),
    };
  }

  #ship({ instance, incarnation, from, next, changes, marks, late }: ShippedBatch) {
    const { positions, rows, log, marks: known } = this.#tables;
    const name = `${instance}.${incarnation}`;
    const at = positions.get(name) ?? streamStart;
    if (isBefore(at, from) || isBefore(from, at)) return { kind: 'elsewhere', at } as const;
    for (const change of changes) {
      const row = rowOf(change);
      const before = rows.get(nameOf(change));
      rows.set(nameOf(change), before === undefined ? row : mergeRows(before, row));
      if (isLogged(change) && !log.some((each) => isSame(each, change))) log.push(loggedOf(change));
    }
    positions.set(name, next);
    for (const [place, number] of marks) {
      const mark = `${instance} ${place}`;
      known.set(mark, Math.max(known.get(mark) ?? 0, number));
    }
    this.#beginShipped(late?.() ?? []);
    return { kind: 'shipped' } as const;
  }

  #begin({ kind, about, note }: Pick<RestoreWork, 'kind' | 'about' | 'note'>): void {
    const isThis = (work: Claimed) => work.kind === kind && work.about === about && work.note === note;
    if (this.#tables.works.some(isThis)) {
      this.#change(
        (work) => isThis(work) && kind === 'heal' && work.state !== 'open',
        () => ({ cursor: null, claimedUntil: 0, begunAt: this.#now, state: 'open' }),
      );
      return;
    }
    this.#add({ kind, about, note, cursor: null });
  }

  #beginShipped(ranges: readonly ShippedRange[]): void {
    for (const { place, lowest, highest } of ranges) {
      const cursor = String(lowest - 1);
      const count = this.#change(
        (work) => work.kind === 'shipped' && work.about === place && work.note === highest,
        (work) => {
          const isOpen = work.state === 'open';
          const before = Number(work.cursor);
          return {
            ...{ claimedBy: null, claimedUntil: 0, endedAt: null, state: 'open' },
            begunAt: isOpen ? work.begunAt : this.#now,
            counts: isOpen ? work.counts : noCounts,
            cursor: isOpen ? String(Math.min(before, lowest - 1)) : cursor,
          };
        },
      );
      if (count === 0) this.#add({ kind: 'shipped', about: place, note: highest, cursor });
    }
  }

  #add(work: Pick<RestoreWork, 'kind' | 'about' | 'note' | 'cursor'>): void {
    this.#works += 1;
    const fresh = { state: 'open', claimedBy: null, claimedUntil: 0, endedAt: null } as const;
    this.#tables.works.push({ ...work, ...fresh, no: this.#works, counts: noCounts, begunAt: this.#now });
  }

  /** Returns the number of changed works. */
  #change(isWanted: (work: Claimed) => boolean, changed: (work: Claimed) => Partial<Claimed>): number {
    let count = 0;
    this.#tables.works = this.#tables.works.map((work) => {
      if (!isWanted(work)) return work;
      count += 1;
      return { ...work, ...changed(work) };
    });
    return count;
  }
}

type Step = <T>(act: () => T) => Promise<T>;
type Reads =
  | ('positions' | 'marks' | 'rows' | 'open' | 'openKeys' | 'changedAbove')
  | ('oldestChange' | 'flow' | 'restores' | 'instances' | 'since');

const isLogged = ({ isOwn, kind }: Change): boolean => isOwn && kind !== 'alert';
const isSame = (a: Logged, b: Logged): boolean => a.number === b.number && a.place === b.place;
const loggedOf = ({ number, place, topic, id }: Logged): Logged => ({ number, place, topic, id });

function copyOf(tables: Tables): Tables {
  const { rows, log, positions, marks, instances, works, barrier, since } = tables;
  return {
    ...{ rows: new Map(rows), log: [...log], positions: new Map(positions), marks: new Map(marks) },
    ...{ instances: new Map(instances), works: [...works], barrier, since },
  };
}
