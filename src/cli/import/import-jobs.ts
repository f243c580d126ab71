// Pushes the jobs of a source to dq, batch by batch, with the jobs of each batch in the state file before its
// push and its end after it.
// Invariants: a push that dq accepted is not repeated; that of a batch without an end is repeated unless dq
// shows it, live or ended. A job is imported, and leaves the source, only when dq has or had this push.

import type { JobJson } from '../../contract/api/job.ts';
import type { BatchResultJson } from '../../contract/api/push.ts';
import { smallestEpochMs } from '../../core/duration.ts';
import { refusesId } from '../../core/job-id.ts';
import { limits } from '../../core/limits.ts';
import { topicOfForeign } from '../../core/topic/topic.ts';
import { wallNow } from '../../runtime/time.ts';
import { type ApiClient, ApiRefusal, type Problem, sentenceOf } from '../daemon/api-client.ts';
import { cliLimits } from '../limits.ts';
import type { Progress } from '../output/progress.ts';
import type { ImportState, JobPush } from './import-state.ts';
import type { KnownTopics } from './import-topics.ts';
import type { JobSettings } from './job-settings.ts';
import type { Found, Source, SourceJob } from './source.ts';

/** Each count with its name in the report. */
export const countNames = {
  due: 'due there',
  delayed: 'delayed there',
  lost: 'lost there',
  deleted: 'deleted there',
  pushed: 'pushed',
  before: 'imported before',
  kept: 'live in dq already',
  tooLarge: 'left: too large',
  withoutTopic: 'left: no topic',
  unreadable: 'left: unreadable',
  rejected: 'left: rejected',
  unknown: 'left: outcome unknown',
  removed: 'removed there',
  changed: 'changed there meanwhile',
} as const;

export type Count = keyof typeof countNames;

const leftBehind: readonly Count[] = ['tooLarge', 'withoutTopic', 'unreadable', 'rejected', 'unknown'];

export class JobReport {
  readonly counts = Object.fromEntries(Object.keys(countNames).map((count) => [count, 0])) as Record<
    Count,
    number
  >;
  readonly problems: { readonly job: string; readonly reason: string }[] = [];

  count(count: Count, n = 1): void {
    this.counts[count] += n;
  }

  leave(count: Count, job: string, reason: string): void {
    this.count(count);
    if (this.problems.length < cliLimits.importNamesMax) this.problems.push({ job, reason });
  }

  get left(): number {
    return leftBehind.reduce((sum, count) => sum + this.counts[count], 0);
  }
}

export interface JobOptions {
  readonly dryRun: boolean;
  /** remove each job from the source after it is stored */
  readonly move: boolean;
  /** limits.bodyBytes of the daemon; null = not known */
  readonly bodyBytesMax: number | null;
  /** of every job */
  readonly settings: JobSettings;
}

/** A job as dq will have it. */
interface Push extends SourceJob {
  readonly topicInDq: string;
  /** its own lease, where its topic is pulled */
  readonly lease: number | null;
}

/** A job in dq, live or ended. */
interface Present {
  readonly createdAt: number;
  readonly dueAt: number;
  /** null: it has ended */
  readonly body: Buffer | null;
}

export interface ImportParts {
  readonly client: ApiClient;
  readonly source: Source;
  readonly known: KnownTopics;
  readonly state: ImportState;
  readonly report: JobReport;
  readonly options: JobOptions;
}

export async function importJobs(parts: ImportParts, progress: Progress): Promise<void> {
  const work = new JobImport(parts);
  for await (const page of parts.source.jobs()) {
    for (const found of page) await work.importFound(found);
    progress.add(page.length);
  }
  await work.flush();
}

class JobImport {
  readonly #client: ApiClient;
  readonly #source: Source;
  readonly #known: KnownTopics;
  readonly #state: ImportState;
  readonly #report: JobReport;
  readonly #options: JobOptions;
  #batch: Push[] = [];
  readonly #inBatch = new Set<string>();
  #bytes = 0;
  /** in dq; --move removes them from the source */
  #stored: SourceJob[] = [];

  constructor({ client, source, known, state, report, options }: ImportParts) {
    this.#client = client;
    this.#source = source;
    this.#known = known;
    this.#state = state;
    this.#report = report;
    this.#options = options;
  }

  async importFound(found: Found): Promise<void> {
    if (found.kind === 'deleted') this.#report.count('deleted');
    else if (found.kind === 'unreadable') this.#report.leave('unreadable', found.name, found.reason);
    else await this.#addJob(found.job);
  }

  async #addJob(job: SourceJob): Promise<void> {
    const push = await this.#checked(job);
    if (push === null) return;
    const key = `${job.topic}\0${job.id}`;
    // A source may list a job twice, and two servers of it may have the same id.
    if (this.#inBatch.has(key)) await this.flush();
    this.#report.count(job.place);
    const past = this.#state.past(job);
    if (past?.digests.includes(job.digest)) {
      this.#report.count('before');
      await this.#remove([job]);
      return;
    }
    if (past !== undefined && job.acceptedAt !== null && job.acceptedAt <= past.sentAt - 1_000) {
      this.#report.leave('rejected', nameOf(job), 'dq has a later push of this id');
      return;
    }
    if (this.#options.dryRun) return;
    const full = this.#batch.length === limits.batchItemsMax || this.#bytes > cliLimits.batchSendBytes;
    if (full) await this.flush();
    this.#batch.push(push);
    this.#inBatch.add(key);
    this.#bytes += job.body.bytes.length;
  }

  /** null: the job stays behind. */
  async #checked(job: SourceJob): Promise<Push | null> {
    const { topic, id, body } = job;
    const name = nameOf(job);
    const wrong = refusesId(id);
    const max = this.#options.bodyBytesMax;
    const [topicInDq, inDq] = [topicOfForeign(topic), await this.#known.ofForeign(topic)];
    if (wrong !== null) this.#report.leave('rejected', name, `id: ${wrong}`);
    else if (topicInDq === null || inDq === null)
      this.#report.leave('withoutTopic', name, `dq has no topic ${topicInDq ?? topic}`);
    else if (max !== null && body.bytes.length > max)
      this.#report.leave('tooLarge', name, `body of ${body.bytes.length} bytes; limits.bodyBytes is ${max}`);
    else return { ...job, topicInDq, lease: inDq['delivery'] === 'pull' ? job.leaseMs : null };
    return null;
  }

  async flush(): Promise<void> {
    const jobs = await this.#withoutStored(this.#batch);
    this.#batch = [];
    this.#inBatch.clear();
    this.#bytes = 0;
    if (jobs.length > 0) await this.#push(jobs);
    await this.#removeAll();
  }

  /** Settles the pushes without an end; returns the jobs that dq does not have. */
  async #withoutStored(jobs: readonly Push[]): Promise<readonly Push[]> {
    const open = jobs.filter((job) => this.#state.uncertain(job) !== undefined);
    if (open.length === 0) return jobs;
    const there: JobPush[] = [];
    const done = new Set<Push>();
    const found = await this.#look(open);
    for (const [n, job] of open.entries()) {
      const push = this.#state.uncertain(job);
      const present = found[n] ?? null;
      if (push === undefined || present?.createdAt !== push.sentAt) continue;
      there.push(push);
      if (push.digest === job.digest) done.add(job);
    }
    if (there.length > 0) {
      this.#state.begin(there);
      this.#state.end();
    }
    this.#report.count('before', done.size);
    await this.#remove([...done]);
    return jobs.filter((job) => !done.has(job));
  }

  async #push(jobs: readonly Push[]): Promise<void> {
    const now = wallNow();
    const sent = jobs.map((job) => ({ ...job, sentAt: this.#sentAtOf(job, now) }));
    this.#state.begin(sent);
    // The source has a newer push of an id that this import pushed before.
    const items = sent.map((job) =>
      itemOf(job, this.#state.past(job) === undefined ? 'keep' : 'replace', now, this.#options.settings),
    );
    const bytes = Buffer.concat([Buffer.from('['), ...joined(items), Buffer.from(']')]);
    const reply = await this.#client.call<BatchResultJson>({
      method: 'POST',
      path: ['v1', 'jobs'],
      body: { bytes, contentType: 'application/json' },
      needs: ['results'],
    });
    await this.#settle(sent, reply.json.results);
  }

  /** dq stores this time, so it is not in the future, and not too early for the API. Each push of an id has
   *  another one, although the times of a source are whole seconds. */
  #sentAtOf(job: SourceJob, now: number): number {
    const { acceptedAt } = job;
    const isUsable = acceptedAt !== null && acceptedAt <= now && acceptedAt >= smallestEpochMs;
    const before = Math.max(this.#state.past(job)?.sentAt ?? 0, this.#state.uncertain(job)?.sentAt ?? 0);
    return Math.max(isUsable ? acceptedAt : now, before + 1);
  }

  async #settle(jobs: readonly (Push & JobPush)[], results: BatchResultJson['results']): Promise<void> {
    const left: number[] = [];
    const unknown: number[] = [];
    const kept: number[] = [];
    const stored: Push[] = [];
    for (const [n, job] of jobs.entries()) {
      const result = results[n];
      if (result === undefined) throw new Error('a batch without a result of each item');
      if ('code' in result) {
        (result.code === 'unknown' ? unknown : left).push(n);
        this.#reject(job, result);
      } else if (result.duplicate) kept.push(n);
      else stored.push(job);
    }
    this.#report.count('pushed', stored.length);
    this.#report.count('kept', kept.length);
    // The same live job is of an import without its state file.
    const found = await this.#look(kept.flatMap((n) => jobs[n] ?? []));
    for (const [i, n] of kept.entries()) {
      const [job, present] = [jobs[n], found[i] ?? null];
      if (job === undefined) continue;
      if (isContent(present, job)) stored.push(job);
      else {
        left.push(n);
        this.#report.leave(
          'rejected',
          nameOf(job),
          'dq has a live job of this id with another body, or due later',
        );
      }
    }
    this.#state.end(left, unknown);
    await this.#remove(stored);
  }

  #reject(job: Push, problem: Problem): void {
    const reason = sentenceOf(problem).replace(/^items\[\d+\][.:]? ?/, '');
    const counts = {
      body_too_large: 'tooLarge',
      topic_not_found: 'withoutTopic',
      unknown: 'unknown',
    } as const;
    const { code } = problem;
    const count = Object.hasOwn(counts, code) ? counts[code as keyof typeof counts] : 'rejected';
    this.#report.leave(count, nameOf(job), reason);
  }

  /** Soon: in batches. */
  async #remove(jobs: readonly SourceJob[]): Promise<void> {
    if (!this.#options.move || this.#options.dryRun) return;
    this.#stored.push(...jobs);
    if (this.#stored.length >= limits.batchItemsMax) await this.#removeAll();
  }

  async #removeAll(): Promise<void> {
    const jobs = this.#stored;
    this.#stored = [];
    if (jobs.length === 0) return;
    const removed = (await this.#source.remove?.(jobs)) ?? 0;
    this.#report.count('removed', removed);
    this.#report.count('changed', jobs.length - removed);
  }

  /** What dq has of these ids, some at a time; null: neither live nor ended. */
  async #look(jobs: readonly Push[]): Promise<readonly (Present | null)[]> {
    const found: (Present | null)[] = [];
    for (let from = 0; from < jobs.length; from += cliLimits.importLooks)
      found.push(
        ...(await Promise.all(
          jobs.slice(from, from + cliLimits.importLooks).map((job) => this.#lookAt(job)),
        )),
      );
    return found;
  }

  async #lookAt({ topicInDq, id }: Push): Promise<Present | null> {
    try {
      const path = ['v1', 'topics', topicInDq, 'jobs', id];
      const { json } = await this.#client.call<JobJson>({ path, needs: ['createdAt', 'dueAt'] });
      const { createdAt, dueAt, endedAt, body = '', bodyBase64 } = json;
      const bytes = bodyBase64 === undefined ? Buffer.from(body) : Buffer.from(bodyBase64, 'base64');
      const times = { createdAt: Date.parse(createdAt), dueAt: Date.parse(dueAt) };
      return { ...times, body: endedAt === undefined ? bytes : null };
    } catch (error) {
      if (error instanceof ApiRefusal && error.problem.code === 'job_not_found') return null;
      throw error;
    }
  }
}

/** An ended job has no body any more: its time of acceptance names it. Without that time, a live one of the
 *  same body is another job when it is due later. */
function isContent(present: Present | null, job: Push & JobPush): boolean {
  const isSameTime = present?.createdAt === job.sentAt;
  if (present?.body == null) return isSameTime;
  const isSoon = present.dueAt <= Math.max(job.dueAt ?? 0, wallNow());
  return present.body.equals(job.body.bytes) && (isSameTime || isSoon);
}

function nameOf({ topic, id }: SourceJob): string {
  return `${topic}:${id}`;
}

function itemOf(job: Push & JobPush, mode: 'keep' | 'replace', now: number, settings: JobSettings): Buffer {
  const { topicInDq: topic, id, dueAt, sentAt: acceptedAt, failures, lease, body } = job;
  const deadline = settings.deadlineOf(Math.max(dueAt ?? 0, now));
  const members = {
    topic,
    id,
    mode,
    // The state file knows what was imported. A window would leave out a later job of the source.
    idempotency: 0,
    acceptedAt,
    ...settings.members,
    ...(deadline === null ? {} : { deadline }),
    ...(dueAt === null || dueAt <= now ? { delay: 0 } : { at: dueAt }),
    ...(failures === 0 ? {} : { failures }),
    ...(lease === null ? {} : { lease: `${lease}ms` }),
    contentType: body.contentType,
  };
  const isJson = body.contentType === 'application/json';
  const content = isJson ? body.bytes : Buffer.from(JSON.stringify(body.bytes.toString()));
  return Buffer.concat([
    Buffer.from(`${JSON.stringify(members).slice(0, -1)},"body":`),
    content,
    Buffer.from('}'),
  ]);
}

function joined(items: readonly Buffer[]): Buffer[] {
  return items.flatMap((item, n) => (n === 0 ? [item] : [Buffer.from(','), item]));
}
