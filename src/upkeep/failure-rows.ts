// Keeps the failures in a row of topics beyond the life of the notifiers that count them, so that "fails
// since" survives a reload, a restart and the death of a notifier. Notifiers report what changed once a
// second and at their end; readers merge it with what the living ones say (mergeFailures). Of this instance
// alone: another one keeps its own.
// Invariants: a part belongs to one run of a notifier, so nothing is counted twice; a success of any run is
// kept while another run has failures before it. A kill of dq-upkeep loses failureRowsEveryMs at most.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  lastAttemptAt,
  lastFailureAt,
  mergeFailures,
  notCalled,
  originOf,
  stillRetried,
  type TopicFailures,
} from '../core/endpoint.ts';
import { reaches } from '../core/token.ts';
import { processLimits } from '../process/limits.ts';
import type { FailingNews } from '../process/messages.ts';
import type { Questions } from '../process/questions.ts';
import type { RoleContext } from '../process/role.ts';
import { orIfMissing, writeDurably } from '../runtime/files.ts';
import { Agent } from '../runtime/loop.ts';
import { upkeepLimits } from './limits.ts';
import type { LivingProcesses } from './living-processes.ts';

interface FailureRowsOptions extends Pick<RoleContext, 'topics' | 'clock' | 'log'> {
  readonly file: Pick<FailureFile, keyof FailureFile>;
  readonly living: Pick<LivingProcesses, 'titleOf'>;
}

type Runs = Map<number, TopicFailures>;

export class FailureRows extends Agent {
  readonly #options: FailureRowsOptions;
  /** by topic and run; run 0: of dead ones together */
  readonly #topics = new Map<string, Runs>();
  #isChanged = false;
  /** This dq-upkeep alone writes the file: what it does not know has ended. */
  #isSole = false;
  /** those of the file that no notifier has replaced */
  readonly #read = new Set<TopicFailures>();

  constructor(options: FailureRowsOptions) {
    super({
      log: options.log,
      failure: 'failure-rows: cannot keep the failures of topics',
      end: 'failure-rows: the failures of topics are kept again',
      work: () => this.#keep(),
      everyMs: upkeepLimits.failureRowsEveryMs,
      first: 'later',
    });
    this.#options = options;
  }

  receive({ run, failing, answered }: FailingNews): void {
    for (const part of failing) this.#put(part, run);
    for (const [topic, lastSuccessAt] of answered) {
      this.#forgetAhead(topic, run);
      if (!this.#isSole || this.#topics.has(topic)) this.#put({ ...notCalled(topic), lastSuccessAt }, run);
    }
    if (this.#isSole) this.#forgetEnded(answered.map(([topic]) => topic));
  }

  /** Without the counts of the last minutes, which only a living notifier knows. Without names as a notifier
   *  answers: of the topics with the most failures in a row. */
  parts({ topics, names }: Questions['failures']['params']): readonly TopicFailures[] {
    const asked = (names ?? [...this.#topics.keys()])
      .filter((name) => reaches({ scopes: [], topics }, name))
      .map((name) => this.#partsOf(name));
    if (names === undefined) asked.sort((a, b) => inRow(b) - inRow(a));
    return asked
      .slice(0, names === undefined ? processLimits.failingTopicsMax : asked.length)
      .flatMap((parts) => parts.map((part) => ({ ...part, delivered: 0, failed: 0 })));
  }

  /** Of its present receiver. */
  #partsOf(topic: string): readonly TopicFailures[] {
    const parts = [...(this.#topics.get(topic)?.values() ?? [])];
    return parts.filter((part) => !this.#isOfFormerReceiver(part)).map((part) => this.#withRecent(part));
  }

  /** No other dq-upkeep writes the file from now on. */
  override async start(): Promise<void> {
    await this.load();
    this.#isSole = true;
    this.#forgetEnded([...this.#topics.keys()]);
    await super.start();
  }

  /** What notifiers have said meanwhile is newer. Another reading replaces this one: the dq-upkeep that wrote
   *  the file may have learned of successes. */
  async load(): Promise<void> {
    const { file, log } = this.#options;
    const text = await file.read().catch((error: unknown) => {
      log.error('failure-rows: cannot read the failures of topics', error);
      return undefined;
    });
    if (text === undefined) return;
    for (const runs of this.#topics.values())
      for (const [run, part] of runs) if (this.#read.has(part)) runs.delete(run);
    this.#read.clear();
    for (const part of partsIn(text)) {
      const { topic, run = 0 } = part;
      const known = this.#topics.get(topic)?.get(run);
      if (known === undefined || lastAttemptAt(known) < lastAttemptAt(part))
        this.#read.add(this.#put(part, run));
    }
  }

  override async drain(deadlineMs: number): Promise<void> {
    await super.drain(deadlineMs);
    if (this.#isSole) await this.#keep().catch((error: unknown) => this.failed(error));
  }

  /** No notifier forgets the retried jobs that a dead one has reported. */
  #withRecent({ retried = [], ...part }: TopicFailures): TopicFailures {
    const recent = stillRetried(retried, this.#options.clock.now());
    return recent.length === 0 ? part : { ...part, retried: recent };
  }

  #put(part: TopicFailures, run: number): TopicFailures {
    const { topic } = part;
    const runs = this.#topics.get(topic) ?? new Map<number, TopicFailures>();
    const kept = { ...part, run };
    this.#isChanged = true;
    runs.set(run, kept);
    this.#topics.set(topic, runs);
    if (this.#topics.size > upkeepLimits.failureRowsMax) this.#giveUpLeast();
    return kept;
  }

  /** The topic with the fewest failures in a row, of equal ones the one that is known longest. */
  #giveUpLeast(): void {
    let [least, fewest] = ['', Number.POSITIVE_INFINITY];
    for (const [topic, runs] of this.#topics) {
      const failures = inRow([...runs.values()]);
      if (failures < fewest) [least, fewest] = [topic, failures];
    }
    this.#topics.delete(least);
  }

  /** Failures later than now were counted before the clock was set back: the success that `run` reports came
   *  after them. */
  #forgetAhead(topic: string, run: number): void {
    const latest = this.#options.clock.now() + processLimits.clockStepMs;
    const runs = this.#topics.get(topic);
    if (runs === undefined) return;
    for (const [other, part] of runs)
      if (other !== run && lastFailureAt(part) > latest) this.#isChanged = runs.delete(other);
  }

  #isOfFormerReceiver({ topic, origin }: TopicFailures): boolean {
    const known = this.#options.topics.get(topic);
    return origin !== undefined && known !== undefined && originOf(known) !== origin;
  }

  /** A success is needed only while another run has failures before it. */
  #forgetEnded(topics: readonly string[]): void {
    for (const topic of topics) {
      const runs = [...(this.#topics.get(topic)?.values() ?? [])];
      if (runs.every(({ failuresInRow }) => failuresInRow === 0)) this.#topics.delete(topic);
    }
  }

  async #keep(): Promise<void> {
    this.#tidy();
    if (!this.#isChanged) return;
    this.#isChanged = false;
    try {
      const all = [...this.#topics.values()].flatMap((runs) => [...runs.values()]);
      await this.#options.file.write(`${JSON.stringify(all)}\n`);
    } catch (error) {
      this.#isChanged = true;
      throw error;
    }
  }

  /** Adds up dead runs, and forgets removed topics and former receivers. */
  #tidy(): void {
    const { living, topics } = this.#options;
    for (const [topic, runs] of this.#topics) {
      if (topics.isKnown && topics.get(topic) === undefined && !topics.isUnreadable(topic)) {
        this.#isChanged = this.#topics.delete(topic);
        continue;
      }
      for (const [run, part] of runs) if (this.#isOfFormerReceiver(part)) this.#isChanged = runs.delete(run);
      const dead = [...runs.keys()].filter((run) => run === 0 || living.titleOf(run) === null);
      const parts = dead.flatMap((run) => runs.get(run) ?? []).map((part) => this.#withRecent(part));
      const whole = mergeFailures(parts).get(topic);
      for (const run of dead) runs.delete(run);
      if (whole !== undefined) runs.set(0, { ...whole, run: 0 });
      if (runs.size === 0) this.#topics.delete(topic);
    }
  }
}

const inRow = (parts: readonly TopicFailures[]): number =>
  parts.reduce((sum, { failuresInRow }) => sum + failuresInRow, 0);

/** `<dataDir>/failing.json` */
export class FailureFile {
  readonly #path: string;

  constructor(dataDir: string) {
    this.#path = join(dataDir, 'failing.json');
  }

  read(): Promise<string | null> {
    return orIfMissing(null, readFile(this.#path, 'utf8'));
  }

  write(text: string): Promise<void> {
    return writeDurably(this.#path, text);
  }
}

/** A damaged file holds none. */
function partsIn(text: string | null): readonly TopicFailures[] {
  try {
    const read: unknown = text === null ? [] : JSON.parse(text);
    return Array.isArray(read) ? read.filter(isPart) : [];
  } catch {
    return [];
  }
}

function isRetried(read: unknown): boolean {
  const { id, since, nextAt } = Object(read);
  return typeof id === 'string' && [since, nextAt].every(Number.isFinite);
}

function isPart(read: unknown): read is TopicFailures {
  const { topic, run, failuresInRow, unansweredInRow, lastSuccessAt, since, lastFailuresAt, retried } =
    Object(read);
  const isTime = (value: unknown) => value === null || Number.isSafeInteger(value);
  return (
    typeof topic === 'string' &&
    [run, failuresInRow, unansweredInRow].every(Number.isSafeInteger) &&
    isTime(lastSuccessAt) &&
    isTime(since) &&
    (retried === undefined || (Array.isArray(retried) && retried.every(isRetried))) &&
    Array.isArray(lastFailuresAt) &&
    lastFailuresAt.every(Number.isSafeInteger)
  );
}
