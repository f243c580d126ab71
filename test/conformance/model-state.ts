// The model's state, and the moves of a job that several operations share. Owns the jobs, the alerts, the
// counter of versions and tokens, the wheel and the turns. Each method is one atomic step, because none
// awaits.

import { webhookOriginOf } from '../../src/core/extension.ts';
import {
  type AttemptRecord,
  type DeadReason,
  type EndedJob,
  type EndState,
  isPulled,
  type JobKey,
  lastAttemptOf,
  type Moment,
  type Priority,
  type Token,
  type Version,
} from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import type * as port from '../../src/ports/job-store.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { byDue, type ModelAlert, type ModelJob } from './model-records.ts';
import { inDumpOrder, type StateDump } from './store-under-test.ts';

export class ModelState {
  readonly jobs = new Map<string, ModelJob>();
  /** by topic and id: the last ended job, until the id is pushed again */
  readonly ended = new Map<string, EndedJob>();
  readonly alerts = new Map<Version, ModelAlert>();
  /** by version of a dead letter: the number that its death drew */
  readonly deaths = new Map<Version, number>();
  /** when an alert of a topic was last sent */
  readonly toldAt = new Map<string, number>();
  /** Called once per hint. */
  onHint: (hint: port.Hint) => void = () => {};
  readonly time: SteppedClock;
  counter = 0;
  position = 0;
  rings: Record<Priority, string[]> = { high: [], normal: [], low: [] };

  constructor(time = new SteppedClock()) {
    this.time = time;
  }

  now(): number {
    return this.time.now;
  }

  dump(): StateDump {
    const jobs = this.all().map((job) => ({
      ...structuredClone(job),
      body: Buffer.from(job.body),
      // structuredClone makes plain byte arrays of both.
      ...(job.extension === undefined ? {} : { extension: Buffer.from(job.extension) }),
    }));
    return inDumpOrder(
      jobs,
      [...this.alerts.values()].map((alert) => this.alertEntry(alert)),
      [...this.ended.values()],
    );
  }

  // Numbers and the fence

  draw(): number {
    this.counter = Math.max(this.counter + 1, this.now() * 1000);
    return this.counter;
  }

  moment(): Moment {
    return { model: this.draw() };
  }

  drawToken(): Token {
    return this.draw();
  }

  /** The job that this lease may finish. */
  leased(lease: port.EndingLease): ModelJob | null {
    const job = this.jobs.get(this.nameOf(lease));
    if (job?.version !== lease.version || job.lease?.token !== lease.token) return null;
    if (lease.isPulled === true && !isPulled(job.lease.owner)) return null;
    return lease.ifExpired === true && job.lease.untilMs > this.now() ? null : job;
  }

  nameOf(key: JobKey): string {
    return JSON.stringify([key.topic, key.id]);
  }

  all(): ModelJob[] {
    return [...this.jobs.values()];
  }

  inState(state: ModelJob['state']): ModelJob[] {
    return this.all().filter((job) => job.state === state);
  }

  /** Ready jobs in the order of reserve. */
  waiting(priority: Priority, topic: string): ModelJob[] {
    const ready = this.inState('ready').filter((job) => job.priority === priority && job.topic === topic);
    return ready.sort(byDue);
  }

  alertEntry(alert: ModelAlert): port.AlertEntry {
    const { claimedUntil, ...entry } = alert;
    const claimed = alert.state === 'owed' && claimedUntil > this.now();
    return { ...entry, state: claimed ? 'claimed' : alert.state };
  }

  // Moves

  /** Ready at its old place, which dueAt decides. Its topic gets the last turn if this is its first ready
   *  job. */
  makeReady(job: ModelJob): void {
    const { priority, topic } = job;
    if (this.waiting(priority, topic).length === 0)
      this.rings[priority] = [...this.rings[priority].filter((name) => name !== topic), topic];
    job.state = 'ready';
    job.lease = null;
  }

  /** Delayed until then, or ready if that is now. */
  schedule(job: ModelJob, dueAt: number): void {
    job.dueAt = dueAt;
    job.lease = null;
    if (dueAt <= this.now()) this.makeReady(job);
    else job.state = 'delayed';
  }

  /** Rounded up: the clock has lost its fraction of a millisecond. */
  dueAfter(delayMs: number): number {
    return delayMs === 0 ? this.now() : this.now() + Math.ceil(delayMs) + 1;
  }

  dueWhen(when: port.When): number {
    return 'at' in when ? Math.max(when.at, this.now()) : this.dueAfter(when.delayMs);
  }

  /** Gives the job a new version and due time. It leaves its place first: its topic may have no other job. */
  makeAnew(job: ModelJob, dueAt: number): void {
    this.remove(job);
    job.version = this.draw();
    this.schedule(job, dueAt);
    this.jobs.set(this.nameOf(job), job);
  }

  keepAttempt(job: ModelJob, attempt: AttemptRecord): void {
    job.attempts = [...job.attempts, attempt].slice(-limits.attemptsKept);
  }

  makeDead(job: ModelJob, reason: DeadReason): void {
    job.state = 'dead';
    job.lease = null;
    job.deadAt = this.now();
    this.deaths.set(job.version, this.draw());
    job.deadReason = reason;
    this.oweAlert(job, job.deadAt, reason);
  }

  oweAlert(job: ModelJob, deadAt: number, reason: DeadReason): void {
    const { topic, id, version, failures } = job;
    const entry = { topic, id, version, deadAt, reason, failures, attempt: lastAttemptOf(job) };
    this.alerts.set(version, { ...entry, state: 'owed', claimedUntil: 0 });
  }

  /** Removes the job and writes its history entry. */
  end(job: ModelJob, state: EndState): void {
    this.remove(job);
    const { topic, id, version, dueAt, acceptedAt, failures, attempts } = job;
    const kept = { topic, id, version, origin: webhookOriginOf(job), dueAt, acceptedAt, failures, attempts };
    this.ended.set(this.nameOf(job), { ...kept, state, endedAt: this.now() });
  }

  remove(job: ModelJob): void {
    this.jobs.delete(this.nameOf(job));
    this.dropSettledAlert(job.version);
  }

  dropSettledAlert(version: Version): void {
    const hasDeadLetter = this.inState('dead').some((job) => job.version === version);
    const alert = this.alerts.get(version);
    if (alert !== undefined && alert.state !== 'owed' && !hasDeadLetter) this.alerts.delete(version);
  }

  /** Runs one step and sends the hints that follow from it. */
  hinting<T>(step: () => T): T {
    const earliest = () => Math.min(...this.inState('delayed').map((job) => job.dueAt));
    const queues = () => new Set(this.inState('ready').map((job) => `${job.priority} ${job.topic}`));
    const before = { dueAt: earliest(), queues: queues() };
    const result = step();
    const dueAt = earliest();
    if (dueAt < before.dueAt)
      this.onHint({ kind: 'due', partition: 0, waitMs: Math.max(0, dueAt - this.now()) });
    if ([...queues()].some((queue) => !before.queues.has(queue)))
      this.onHint({ kind: 'ready', partition: 0 });
    return result;
  }
}
