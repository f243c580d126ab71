// Pushes the jobs of a source to dq, batch by batch, with the keys of each batch in the state file before its
// push and its end after it.
// Invariant: a job is pushed once. A job that the state file names is skipped; one of a batch without an end
// is pushed only when dq knows neither the live nor the ended job.

import { refusesId } from '../../core/job-id.ts';
import { limits } from '../../core/limits.ts';
import { topicOfForeign } from '../../core/topic/foreign-name.ts';
import { type ApiClient, ApiRefusal, type Problem, sentenceOf } from '../daemon/api-client.ts';
import { cliLimits } from '../limits.ts';
import type { Progress } from '../output/progress.ts';
import type { ImportState } from './import-state.ts';
import type { JobReport } from './job-report.ts';
import type { KnownTopics } from './known-topics.ts';
import type { Found, Source, SourceJob } from './source.ts';

export interface JobOptions {
  readonly dryRun: boolean;
  /** remove each job from the source after it is stored */
  readonly move: boolean;
  /** limits.bodyBytes of the daemon; null = not known */
  readonly bodyBytesMax: number | null;
}

/** A job under its name in dq. */
interface Push extends SourceJob {
  readonly topicInDq: string;
}

type Result = { readonly status: number; readonly duplicate: boolean } | Problem;

export async function importJobs(
  client: ApiClient,
  source: Source,
  known: KnownTopics,
  state: ImportState,
  report: JobReport,
  options: JobOptions,
  progress: Progress,
): Promise<void> {
  const work = new JobImport(client, source, known, state, report, options);
  for await (const page of source.jobs()) {
    for (const found of page) await work.add(found);
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

  constructor(
    client: ApiClient,
    source: Source,
    known: KnownTopics,
    state: ImportState,
    report: JobReport,
    options: JobOptions,
  ) {
    this.#client = client;
    this.#source = source;
    this.#known = known;
    this.#state = state;
    this.#report = report;
    this.#options = options;
  }

  async add(found: Found): Promise<void> {
    if (found.kind === 'deleted') this.#report.add('deleted');
    else if (found.kind === 'unreadable') this.#report.leave('unreadable', found.name, found.reason);
    else await this.#addJob(found.job);
  }

  async #addJob(job: SourceJob): Promise<void> {
    const topicInDq = await this.#checked(job);
    if (topicInDq === null) return;
    const push = { ...job, topicInDq };
    const key = `${job.topic}\0${job.id}`;
    // A source may list a job twice.
    if (this.#inBatch.has(key)) await this.flush();
    this.#report.add(job.place);
    if (this.#state.imported(push) === job.digest) {
      this.#report.add('before');
      if (this.#options.move) await this.#remove([push]);
      return;
    }
    if (this.#options.dryRun) return;
    const full = this.#batch.length === limits.batchItemsMax || this.#bytes > cliLimits.batchSendBytes;
    if (full) await this.flush();
    this.#batch.push(push);
    this.#inBatch.add(key);
    this.#bytes += job.body.bytes.length;
  }

  /** The topic in dq; null: the job stays behind. */
  async #checked({ topic, id, body }: SourceJob): Promise<string | null> {
    const name = `${topic}:${id}`;
    const wrong = refusesId(id);
    const max = this.#options.bodyBytesMax;
    if (wrong !== null) this.#report.leave('rejected', name, `id: ${wrong}`);
    else if ((await this.#known.ofForeign(topic)) === null)
      this.#report.leave('withoutTopic', name, `dq has no topic ${topicOfForeign(topic) ?? topic}`);
    else if (max !== null && body.bytes.length > max)
      this.#report.leave('tooLarge', name, `body of ${body.bytes.length} bytes; limits.bodyBytes is ${max}`);
    else return topicOfForeign(topic);
    return null;
  }

  async flush(): Promise<void> {
    if (this.#batch.length === 0) return;
    const jobs = this.#batch;
    this.#batch = [];
    this.#inBatch.clear();
    this.#bytes = 0;
    const fresh = await this.#withoutKnown(jobs);
    if (fresh.length === 0) return;
    const batch = this.#state.begin(fresh);
    const items = fresh.map((job) => itemOf(job, this.#state.imported(job) !== undefined));
    const bytes = Buffer.concat([Buffer.from('['), ...joined(items), Buffer.from(']')]);
    const reply = await this.#client.call<{ results: readonly Result[] }>({
      method: 'POST',
      path: ['v1', 'jobs'],
      body: { bytes, contentType: 'application/json' },
      needs: ['results'],
    });
    await this.#settle(batch, fresh, reply.json.results);
  }

  /** Asks dq for the jobs of a batch without an end. Those that it has are done. */
  async #withoutKnown(jobs: readonly Push[]): Promise<readonly Push[]> {
    const there: Push[] = [];
    const fresh: Push[] = [];
    for (const job of jobs) {
      const isThere = this.#state.uncertain(job) === job.digest && (await this.#bodyInDq(job)) !== null;
      (isThere ? there : fresh).push(job);
    }
    if (there.length > 0) {
      this.#state.end(this.#state.begin(there), there, [], []);
      this.#report.add('before', there.length);
      if (this.#options.move) await this.#remove(there);
    }
    return fresh;
  }

  async #settle(batch: number, jobs: readonly Push[], results: readonly Result[]): Promise<void> {
    const rejected: number[] = [];
    const unknown: number[] = [];
    const stored: Push[] = [];
    for (const [n, job] of jobs.entries()) {
      const result = results[n];
      if (result === undefined) throw new Error('a batch without a result of each item');
      if ('code' in result) {
        (result.code === 'unknown' ? unknown : rejected).push(n);
        this.#reject(job, result);
      } else if (result.duplicate) {
        this.#report.add('kept');
        if (this.#options.move) await this.#moveKept(job, stored);
      } else {
        this.#report.add('pushed');
        stored.push(job);
      }
    }
    this.#state.end(batch, jobs, rejected, unknown);
    if (this.#options.move) await this.#remove(stored);
  }

  /** A live job with the same body is this job, of an import without its state file. */
  async #moveKept(job: Push, stored: Push[]): Promise<void> {
    if ((await this.#bodyInDq(job))?.equals(job.body.bytes)) stored.push(job);
    else
      this.#report.leave(
        'rejected',
        `${job.topic}:${job.id}`,
        'dq has a live job of this id with another body',
      );
  }

  #reject({ topic, id }: Push, problem: Problem): void {
    const reason = sentenceOf(problem).replace(/^items\[\d+\][.:]? ?/, '');
    const counts = {
      body_too_large: 'tooLarge',
      topic_not_found: 'withoutTopic',
      unknown: 'unknown',
    } as const;
    const { code } = problem;
    const count = Object.hasOwn(counts, code) ? counts[code as keyof typeof counts] : 'rejected';
    this.#report.leave(count, `${topic}:${id}`, reason);
  }

  async #remove(jobs: readonly Push[]): Promise<void> {
    const removed = (await this.#source.remove?.(jobs)) ?? 0;
    this.#report.add('removed', removed);
    this.#report.add('changed', jobs.length - removed);
  }

  /** Of the live or ended job; null: dq has neither. An ended job has no body. */
  async #bodyInDq({ topicInDq, id }: Push): Promise<Buffer | null> {
    try {
      const path = ['v1', 'topics', topicInDq, 'jobs', id];
      const { json } = await this.#client.call<{ body?: string; bodyBase64?: string }>({
        method: 'GET',
        path,
      });
      return json.bodyBase64 === undefined
        ? Buffer.from(json.body ?? '')
        : Buffer.from(json.bodyBase64, 'base64');
    } catch (error) {
      if (error instanceof ApiRefusal && error.problem.code === 'job_not_found') return null;
      throw error;
    }
  }
}

/** `isNewer`: the source has another push of an id that this import pushed before. */
function itemOf(job: Push, isNewer: boolean): Buffer {
  const { topicInDq: topic, id, dueAt, acceptedAt, failures, body } = job;
  const members = {
    topic,
    id,
    mode: isNewer ? 'replace' : 'keep',
    ...(dueAt === null || dueAt <= Date.now() ? { delay: 0 } : { at: dueAt }),
    ...(acceptedAt === null ? {} : { acceptedAt }),
    ...(failures === 0 ? {} : { failures }),
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
