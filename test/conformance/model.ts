// The reference: a job store as short and obvious as possible, on a map of jobs and a map of alerts
// (model-state.ts) that every call walks through. It must never become fast or clever: when a store and this
// file differ, this one must be the easier to judge. Each method is one atomic step, because none awaits.
// model-store.ts adds the port; mutants/ replaces single methods, so they are small.

import { optionsIn, pushedExtension, withAgainOf } from '../../src/core/extension.ts';
import {
  type AttemptRecord,
  type EndedJob,
  type EndState,
  endStates,
  type FoundJob,
  isPulled,
  type JobKey,
  type JobSnapshot,
  type JobState,
  jobStates,
  type Lease,
  lastAttemptOf,
  type Moment,
  type Owner,
  type Priority,
  priorities,
  pullOwner,
  type ReservedJob,
  type Token,
  type Version,
  type VersionedKey,
} from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import { type DeadSelection, hasMarks, horizonEndsMs } from '../../src/core/survey.ts';
import type * as port from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { dealTickets, type ReadyRings } from '../support/deal-tickets.ts';
import {
  byDeath,
  byDue,
  byEnd,
  byLeaseEnd,
  type ModelAlert,
  type ModelJob,
  pageOf,
  pageOfFound,
  untried,
} from './model-records.ts';
import { ModelState } from './model-state.ts';

const badItem = { kind: 'not_stored', code: 'bad_item' } as const;

export class Model extends ModelState {
  // Jobs

  push(pushed: port.PushJob): port.PushOutcome {
    if (!Number.isFinite(this.dueWhen(pushed.when))) return badItem;
    const old = this.jobs.get(this.nameOf(pushed));
    const live = old !== undefined && old.state !== 'dead';
    if (live && pushed.mode !== 'replace') {
      const { version, dueAt, state } = old;
      return { kind: pushed.mode === 'keep' ? 'kept' : 'job_exists', version, dueAt, state };
    }
    const last = live ? null : this.lastEnd(pushed);
    if (last !== null && isBarred(last, this.now(), pushed.windowMs ?? 0)) return { kind: 'ended', ...last };
    if (old !== undefined) this.remove(old);
    this.ended.delete(this.nameOf(pushed));
    const now = this.now();
    const version = this.draw();
    const { topic, id, priority, contentType } = pushed;
    const given = { topic, id, priority, contentType, body: Buffer.from(pushed.body) };
    const job: ModelJob = {
      ...given,
      ...untried,
      attempts: [],
      ...(pushed.extension ? { extension: pushed.extension } : {}),
      failures: pushed.failures ?? 0,
      version,
      origin: version,
      acceptedAt: Math.min(pushed.acceptedAt ?? now, now),
      state: 'ready',
      dueAt: now,
    };
    this.schedule(job, this.dueWhen(pushed.when));
    this.jobs.set(this.nameOf(job), job);
    const state = job.state === 'ready' ? 'ready' : 'delayed';
    const inFlight = live && old.state === 'reserved';
    return { kind: 'stored', version, dueAt: job.dueAt, state, replaced: live, inFlight };
  }

  /** Of the last job of an id without a live one; null: not known. */
  lastEnd(key: JobKey): Omit<Extract<port.PushOutcome, { kind: 'ended' }>, 'kind'> | null {
    const dead = this.jobs.get(this.nameOf(key));
    if (dead !== undefined && dead.deadAt !== null)
      return { version: dead.version, dueAt: dead.dueAt, state: 'dead', endedAt: dead.deadAt };
    const entry = this.ended.get(this.nameOf(key));
    if (entry === undefined) return null;
    const { version, dueAt, state, endedAt } = entry;
    return { version, dueAt, state, endedAt };
  }

  get(key: JobKey): JobSnapshot | null {
    const job = this.jobs.get(this.nameOf(key));
    return job === undefined ? null : this.snapshot(job);
  }

  snapshot(job: ModelJob): JobSnapshot {
    const { lease, priority, ...snapshot } = job;
    return snapshot;
  }

  search(filter: port.SearchFilter, limit: number, cursor: string | null): port.Page<FoundJob> {
    const ends = (endStates as readonly unknown[]).includes(filter.state);
    const all = ends ? this.foundEnded() : this.foundLive();
    const rest = all.filter((job) => this.isFound(filter, job));
    return pageOfFound(rest, ends ? 'endedAt' : 'dueAt', limit, cursor);
  }

  foundLive(): FoundJob[] {
    return this.all()
      .sort(byDue)
      .map(({ topic, id, version, origin, state, dueAt, acceptedAt, failures, deadAt }) => {
        return { topic, id, version, origin, state, dueAt, acceptedAt, failures, deadAt, endedAt: null };
      });
  }

  foundEnded(): FoundJob[] {
    const latestFirst = [...this.ended.values()].sort(byEnd).reverse();
    return latestFirst.map(({ attempts, ...job }) => ({ ...job, deadAt: null }));
  }

  isBefore(moment: Moment | undefined, number: number | undefined): boolean {
    return moment === undefined || (number ?? 0) < (moment['model'] ?? 0);
  }

  isFound(filter: port.SearchFilter, job: FoundJob): boolean {
    return (
      this.isBefore(filter.before, job.version) &&
      (filter.topic === undefined || job.topic === filter.topic) &&
      (filter.state === undefined || job.state === filter.state) &&
      (filter.id === undefined || job.id === filter.id) &&
      (filter.since === undefined || filter.since <= job.dueAt) &&
      (filter.until === undefined || job.dueAt < filter.until)
    );
  }

  /** The caller read another version than the job has. */
  namesOther({ version }: VersionedKey, job: ModelJob): boolean {
    return version !== undefined && version !== job.version;
  }

  cancel(key: VersionedKey, as: EndState = 'cancelled'): port.CancelOutcome {
    const job = this.jobs.get(this.nameOf(key));
    if (job === undefined) return { kind: 'absent' };
    if (this.namesOther(key, job)) return { kind: 'other_version' };
    this.end(job, as);
    return { kind: 'cancelled', inFlight: job.state === 'reserved' };
  }

  run(key: VersionedKey): port.RunOutcome {
    const job = this.jobs.get(this.nameOf(key));
    if (job === undefined) return { kind: 'absent' };
    if (this.namesOther(key, job)) return { kind: 'other_version' };
    const { state, version, dueAt } = job;
    if (state === 'dead') return { kind: 'dead' };
    if (state !== 'delayed') return { kind: 'unchanged', state, version, dueAt };
    this.makeAnew(job, Math.min(dueAt, this.now()));
    return { kind: 'run', version: job.version, dueAt: job.dueAt };
  }

  reschedule(item: port.RescheduleItem): port.RescheduleOutcome {
    const job = this.jobs.get(this.nameOf(item));
    if (job === undefined) return { kind: 'absent' };
    if (this.namesOther(item, job)) return { kind: 'other_version' };
    if (job.state === 'dead') return { kind: 'dead' };
    if (job.state === 'reserved') return { kind: 'in_flight' };
    this.makeAnew(job, this.dueWhen(item.when));
    const { version, dueAt, state } = job as { version: Version; dueAt: number; state: 'delayed' | 'ready' };
    return { kind: 'rescheduled', state, version, dueAt };
  }

  requeue(key: VersionedKey): port.RequeueOutcome {
    const job = this.jobs.get(this.nameOf(key));
    if (job === undefined) return { kind: 'absent' };
    if (this.namesOther(key, job)) return { kind: 'other_version' };
    if (job.state !== 'dead') return { kind: 'not_dead', state: job.state };
    this.revive(job);
    return { kind: 'requeued', version: job.version, dueAt: job.dueAt };
  }

  edit(item: port.EditItem): port.EditOutcome {
    if (item.when !== null && !Number.isFinite(this.dueWhen(item.when))) return badItem;
    const job = this.jobs.get(this.nameOf(item));
    if (job === undefined) return { kind: 'absent' };
    if (this.namesOther(item, job)) return { kind: 'other_version' };
    if (item.requeue && job.state !== 'dead') return { kind: 'not_dead', state: job.state };
    if (!item.requeue && job.state === 'dead') return { kind: 'dead' };
    if (job.state === 'reserved') return { kind: 'in_flight' };
    this.renew(job, item);
    const { version, dueAt } = job;
    return { kind: 'edited', state: job.state === 'ready' ? 'ready' : 'delayed', version, dueAt };
  }

  /** The job gets the parts of the item under a new origin. */
  renew(job: ModelJob, { priority, contentType, body, extension, requeue, when }: port.EditItem): void {
    this.remove(job);
    job.origin = this.draw();
    job.version = this.draw();
    Object.assign(job, { priority, contentType, body: Buffer.from(body) }, requeue ? untried : {});
    this.setOptions(job, withAgainOf(requeue ? null : (job.extension ?? null), extension));
    const unchanged = requeue ? this.now() : job.dueAt;
    this.schedule(job, when === null ? unchanged : this.dueWhen(when));
    this.jobs.set(this.nameOf(job), job);
  }

  promote(max: number): port.Promoted {
    const delayed = this.inState('delayed').sort(byDue);
    const due = delayed.filter((job) => job.dueAt <= this.now()).slice(0, max);
    for (const job of due) this.makeReady(job);
    const next = delayed[due.length];
    return {
      moved: due.length,
      waitMs: next === undefined ? null : Math.max(0, next.dueAt - this.now()),
    };
  }

  reserve(asked: port.ReserveRequest): port.Reserved {
    const full = isPulled(asked.owner) ? this.topicsAtLeaseLimit() : [];
    const topics = new Map([
      ...asked.topics,
      ...full.map((topic) => [topic, { room: 0, leaseMs: 0 }] as const),
    ]);
    const left = isPulled(asked.owner) ? this.pullLeasesLeft() : limits.reserveMax;
    const max = Math.min(asked.max, limits.reserveMax, Math.max(left, 1));
    const answer = this.reserveWithin({ ...asked, topics, max }, max);
    if (answer.jobs.length > 0 || answer.more) return answer;
    const atLeaseLimit = full.filter((topic) => (asked.topics.get(topic) ?? asked.others).room > 0);
    return atLeaseLimit.length === 0 ? answer : { ...answer, atLeaseLimit };
  }

  reserveWithin(request: port.ReserveRequest, max: number): port.Reserved {
    const ringOf = (priority: Priority) =>
      this.rings[priority].map((topic) => ({ topic, ready: this.waiting(priority, topic).length }));
    const dealt = this.deal(
      { high: ringOf('high'), normal: ringOf('normal'), low: ringOf('low') },
      { ...request, max },
    );
    this.position = dealt.position;
    for (const priority of priorities)
      this.rings[priority] = dealt.rings[priority].map((entry) => entry.topic);
    const jobs = dealt.deals.map(({ priority, topic }) => {
      const job = this.waiting(priority, topic)[0] as ModelJob;
      return this.lease(job, request.owner, (request.topics.get(topic) ?? request.others).leaseMs);
    });
    return { jobs, more: dealt.more, now: jobs.length === 0 ? null : this.now() };
  }

  pullLeasesLeft(): number {
    return limits.pullLeasesMax - this.held(isPulled).length;
  }

  /** Topics with ready jobs that have as many leases of pullOwner as are left. */
  topicsAtLeaseLimit(): string[] {
    const left = this.pullLeasesLeft();
    const held = this.held(isPulled);
    const names = new Set(this.inState('ready').map(({ topic }) => topic));
    return [...names].filter((name) => held.filter(({ topic }) => topic === name).length >= left);
  }

  deal(rings: ReadyRings, request: port.ReserveRequest): ReturnType<typeof dealTickets> {
    return dealTickets(this.position, rings, request);
  }

  lease(job: ModelJob, owner: Owner, requestedMs: number): ReservedJob {
    const token = this.drawToken();
    const leaseMs = (isPulled(owner) ? optionsIn(job.extension).leaseMs : undefined) ?? requestedMs;
    job.state = 'reserved';
    job.lease = { token, owner: { ...owner }, untilMs: this.now() + leaseMs };
    const { state, priority, lease, attempts, deadAt, deadReason, ...held } = job;
    return { ...held, token, leaseMs };
  }

  extend(item: port.ExtendItem): port.ExtendOutcome {
    const job = this.leased(item);
    if (job === null || job.lease === null || !isPulled(job.lease.owner)) return { kind: 'lease_lost' };
    job.lease = { ...job.lease, untilMs: this.now() + item.leaseMs };
    return { kind: 'extended', until: job.lease.untilMs };
  }

  ack(item: port.AckItem): port.FinishOutcome<'acked'> {
    const job = this.leased(item);
    if (job === null) return { kind: 'lease_lost' };
    if (item.attempt !== null) this.keepAttempt(job, item.attempt);
    this.end(job, 'done');
    this.pushOutcome(item);
    return { kind: 'acked' };
  }

  /** The end was repeated where the id is known. */
  pushOutcome({ outcome }: Pick<port.AckItem, 'outcome'>): void {
    if (outcome === undefined) return;
    const name = this.nameOf(outcome.job);
    if (!this.jobs.has(name) && !this.ended.has(name)) this.push(outcome.job);
  }

  retry(item: port.RetryItem): port.FinishOutcome<'retried'> {
    if (!Number.isFinite(item.delayMs)) return badItem;
    const job = this.leased(item);
    if (job === null) return { kind: 'lease_lost' };
    if (item.attempt !== null) {
      job.failures += 1;
      this.keepAttempt(job, item.attempt);
    }
    if (item.extension !== undefined) job.extension = item.extension;
    job.strikes = 0;
    this.schedule(job, this.dueAfter(item.delayMs));
    return { kind: 'retried' };
  }

  bury(item: port.BuryItem): port.FinishOutcome<'buried'> {
    const job = this.leased(item);
    if (job === null) return { kind: 'lease_lost' };
    job.strikes = item.reason === 'poison' && item.attempt === null ? job.strikes + 1 : 0;
    if (item.attempt !== null) {
      job.failures += 1;
      this.keepAttempt(job, item.attempt);
    }
    this.makeDead(job, item.reason);
    this.pushOutcome(item);
    return { kind: 'buried' };
  }

  release(lease: Lease): port.FinishOutcome<'released'> {
    const job = this.leased(lease);
    if (job === null) return { kind: 'lease_lost' };
    this.makeReady(job);
    return { kind: 'released' };
  }

  // Leases that end without an outcome

  recover(max: number): port.Recovered {
    const struck = this.strike((lease) => this.hasEnded(lease), max);
    const pulled = this.held(isPulled).filter(({ lease }) => this.hasEnded(lease));
    if (pulled.length === 0) return struck;
    const listed = pulled.slice(0, max).map((job) => this.expiredPull(job));
    return { ...struck, more: struck.more || pulled.length > max, pulled: listed };
  }

  hasEnded(lease: ModelJob['lease']): boolean {
    return lease !== null && lease.untilMs <= this.now();
  }

  expiredPull(job: ModelJob): port.ExpiredPull {
    const { topic, id, version, failures, dueAt } = job;
    const options = optionsIn(job.extension);
    const { token, untilMs } = job.lease ?? { token: 0, untilMs: 0 };
    const leaseMs = Math.max(0, untilMs - Math.floor(token / 1000));
    return { lease: { topic, id, version, token }, failures, leaseMs, until: untilMs, dueAt, options };
  }

  /** Reserved jobs by the end of their leases. */
  held(by: (owner: Owner) => boolean): ModelJob[] {
    const reserved = this.inState('reserved').filter(({ lease }) => by(lease?.owner ?? pullOwner));
    return reserved.sort(byLeaseEnd);
  }

  /** Reserved jobs that a process holds. */
  heldByProcesses(): ModelJob[] {
    return this.held((owner) => !isPulled(owner));
  }

  recoverOwners(
    instance: number,
    which: { dead: number } | { living: readonly number[] },
    max: number,
  ): port.Recovered {
    const isDead = (incarnation: number) =>
      'dead' in which ? incarnation === which.dead : !which.living.includes(incarnation);
    const isYounger = (incarnation: number) =>
      'living' in which && which.living.length > 0 && which.living.every((known) => incarnation > known);
    return this.strike(
      ({ owner: { incarnation, ...owner } }) =>
        owner.instance === instance && isDead(incarnation) && !isYounger(incarnation),
      max,
    );
  }

  strike(ended: (lease: NonNullable<ModelJob['lease']>) => boolean, max: number): port.Recovered {
    const lost = this.heldByProcesses().filter((job) => job.lease !== null && ended(job.lease));
    const poisoned: Lease[] = [];
    for (const job of lost.slice(0, max)) {
      const { topic, id, version, lease } = job;
      if (job.strikes + 1 >= limits.strikesPoison)
        poisoned.push({ topic, id, version, token: lease?.token ?? 0 });
      else {
        job.strikes += 1;
        this.makeReady(job);
      }
    }
    const handled = Math.min(lost.length, max);
    return { returned: handled - poisoned.length, poisoned, more: lost.length > handled };
  }

  releaseUnheld(owner: Owner, held: readonly Token[], upTo: Token): port.Unheld {
    const unheld = this.heldByProcesses().filter(
      ({ lease }) =>
        lease !== null &&
        lease.owner.instance === owner.instance &&
        lease.owner.incarnation === owner.incarnation &&
        !held.includes(lease.token),
    );
    const rows = unheld.filter(({ lease }) => (lease?.token ?? 0) <= upTo);
    for (const job of rows) this.makeReady(job);
    return { released: rows.length, left: unheld.length - rows.length, last: this.counter };
  }

  // Dead letters

  /** Oldest death first. */
  matching(filter: port.DeadFilter): ModelJob[] {
    return this.inState('dead')
      .filter(
        ({ topic, id, deadAt }) =>
          deadAt !== null &&
          (filter.topic === undefined || topic === filter.topic) &&
          (filter.ids === undefined || filter.ids.includes(id)) &&
          (filter.since === undefined || filter.since <= deadAt) &&
          (filter.until === undefined || deadAt < filter.until),
      )
      .filter(({ version }) => this.isBefore(filter.before, this.deaths.get(version)))
      .sort(byDeath);
  }

  listDead(filter: port.DeadFilter, limit: number, cursor: string | null): port.Page<port.DeadLetter> {
    const { items, nextCursor } = pageOf(this.matching(filter).reverse(), limit, cursor);
    return {
      items: items.map((job) => this.snapshot(job)).map(({ body, extension, ...letter }) => letter),
      nextCursor,
    };
  }

  requeueDead(filter: port.DeadFilter, max: number): { requeued: number; more: boolean } {
    const found = this.matching(filter);
    for (const job of found.slice(0, max)) this.revive(job);
    return { requeued: Math.min(found.length, max), more: found.length > max };
  }

  revive(job: ModelJob): void {
    this.makeAnew(job, this.now());
    Object.assign(job, untried);
    this.setOptions(job, pushedExtension(job.extension ?? null));
  }

  setOptions(job: ModelJob, extension: Buffer | null): void {
    if (extension === null) delete job.extension;
    else job.extension = extension;
  }

  purge(found: readonly ModelJob[], max: number): { purged: number; more: boolean } {
    for (const job of found.slice(0, max)) this.end(job, 'purged');
    return { purged: Math.min(found.length, max), more: found.length > max };
  }

  expire(olderThanMs: number, max: number): { expired: number; more: boolean } {
    const found = this.matching({ until: this.now() - olderThanMs }).filter((job) => !this.owes(job));
    for (const job of found.slice(0, max)) this.end(job, 'expired');
    return { expired: Math.min(found.length, max), more: found.length > max };
  }

  owes(job: ModelJob): boolean {
    return this.alerts.get(job.version)?.state === 'owed';
  }

  // History

  getEnded(key: JobKey): EndedJob | null {
    return this.ended.get(this.nameOf(key)) ?? null;
  }

  forget(olderThanMs: number, max: number): { forgotten: number; more: boolean } {
    const before = this.now() - olderThanMs;
    const found = [...this.ended.values()].filter((job) => job.endedAt < before).sort(byEnd);
    for (const job of found.slice(0, max)) this.ended.delete(this.nameOf(job));
    return { forgotten: Math.min(found.length, max), more: found.length > max };
  }

  // Alerts

  owed(): ModelAlert[] {
    return [...this.alerts.values()].filter((alert) => this.alertEntry(alert).state === 'owed').sort(byDeath);
  }

  due(windowMs: number): readonly string[] {
    const inWindow = (topic: string) => {
      const age = this.now() - (this.toldAt.get(topic) ?? -Infinity);
      return age >= 0 && age < windowMs;
    };
    return [...new Set(this.owed().map((alert) => alert.topic))].filter((topic) => !inWindow(topic));
  }

  claim(topic: string, claimMs: number, max: number): readonly port.AlertEntry[] {
    const claimed = this.owed()
      .filter((alert) => alert.topic === topic)
      .slice(0, max);
    for (const alert of claimed) alert.claimedUntil = this.now() + claimMs;
    return claimed.map((alert) => this.alertEntry(alert));
  }

  settle(versions: readonly Version[], as: 'sent' | 'nobody' | 'owed'): void {
    for (const version of versions) {
      const alert = this.alerts.get(version);
      if (alert === undefined || alert.state !== 'owed') continue;
      alert.state = as;
      alert.claimedUntil = 0;
      if (as === 'sent') this.toldAt.set(alert.topic, this.now());
      this.dropSettledAlert(version);
    }
  }

  alertState({
    topic,
    id,
    version,
  }: JobKey & { readonly version: Version }): port.AlertEntry['state'] | null {
    const alert = this.alerts.get(version);
    return alert?.topic === topic && alert.id === id ? this.alertEntry(alert).state : null;
  }

  listAlerts(limit: number, cursor: string | null): port.AlertPage {
    const entries = [...this.alerts.values()].map((alert) => this.alertEntry(alert));
    return { ...pageOf(entries.sort(byDeath).reverse(), limit, cursor), total: entries.length };
  }

  // Surveys

  ahead(key: JobKey): number | null {
    const job = this.jobs.get(this.nameOf(key));
    if (job === undefined || job.state !== 'ready') return null;
    return this.waiting(job.priority, job.topic).indexOf(job);
  }

  scan(filter: port.ScanFilter, limit: number, cursor: string | null): port.Scan {
    const all = this.all().sort((a, b) => a.version - b.version);
    const from = Number(cursor ?? 0);
    if (!Number.isInteger(from)) throw new StoreError({ kind: 'not_stored', code: 'bad_cursor' });
    const found = all.slice(from).filter((job) => this.isScanned(filter, job));
    const last = found[limit - 1];
    const next = last === undefined ? all.length : all.indexOf(last) + 1;
    const items = this.foundLive().filter(({ version }) =>
      found.slice(0, limit).some((job) => job.version === version),
    );
    const nextCursor = next < all.length ? String(next) : null;
    return { items, nextCursor, scanned: { jobs: next - from, of: all.length } };
  }

  isScanned(filter: port.ScanFilter, job: ModelJob): boolean {
    const { topics, state, idPrefix = '', body = '', since = 0, until = Infinity } = filter;
    return (
      (topics === undefined || topics.includes(job.topic)) &&
      (state === undefined || job.state === state) &&
      job.id.startsWith(idPrefix) &&
      job.body.includes(Buffer.from(body, 'base64')) &&
      since <= job.dueAt &&
      job.dueAt < until
    );
  }

  horizon(topics: readonly string[] | null): port.Horizon {
    const waiting = [...this.inState('delayed'), ...this.inState('ready')];
    const counts = [...horizonEndsMs, 0].map(() => 0);
    for (const job of waiting.filter((one) => topics === null || topics.includes(one.topic))) {
      const at = this.classOf(job);
      counts[at] = (counts[at] ?? 0) + 1;
    }
    return { counts };
  }

  classOf(job: ModelJob): number {
    if (job.state === 'ready') return 0;
    const at = horizonEndsMs.findIndex((ms) => job.dueAt <= this.now() + ms);
    return at < 0 ? horizonEndsMs.length : at;
  }

  deadGroups(topics: readonly string[] | null, selection: DeadSelection = {}): port.DeadGroups {
    const dead = this.matching({}).filter(
      (job) => (topics === null || topics.includes(job.topic)) && this.isSelected(selection, job),
    );
    const groups = new Map<string, ModelJob[]>();
    for (const job of dead) {
      const name = this.groupOf(job);
      groups.set(name, [...(groups.get(name) ?? []), job]);
    }
    const largest = [...groups.values()].sort((a, b) => b.length - a.length);
    return { groups: largest.map((jobs) => this.group(jobs)), examined: dead.length, complete: true };
  }

  isSelected({ since = 0, until = Infinity, ...marks }: DeadSelection, job: ModelJob): boolean {
    const deadAt = job.deadAt ?? 0;
    return deadAt >= since && deadAt < until && hasMarks(marks, job);
  }

  lastOf(job: ModelJob): AttemptRecord | undefined {
    return lastAttemptOf(job) ?? undefined;
  }

  groupOf(job: ModelJob): string {
    const last = this.lastOf(job);
    return JSON.stringify([job.topic, job.deadReason, last?.reason, last?.status]);
  }

  /** Of jobs in one group, oldest death first. */
  group(jobs: readonly ModelJob[]): port.DeadGroup {
    const deaths = jobs.map(({ deadAt }) => deadAt ?? 0);
    const ages = deaths.map((at) => Math.floor((this.now() - at) / 3_600_000));
    const [first] = jobs as [ModelJob, ...ModelJob[]];
    const { reason: lastReason = null, status = null } = this.lastOf(first) ?? {};
    return {
      topic: first.topic,
      deadReason: first.deadReason ?? 'attempts_exhausted',
      lastReason,
      status,
      count: jobs.length,
      firstAt: Math.min(...deaths),
      lastAt: Math.max(...deaths),
      hours: Array.from({ length: 12 }, (_, i) => ages.filter((age) => age === 11 - i).length),
    };
  }

  // Counts

  clock(): number {
    return this.now();
  }

  fsck(): port.LongWork<port.Examination> {
    const result = { jobs: this.all().length, problems: [] };
    return { kind: 'done', startedAt: this.now(), endedAt: this.now(), result };
  }

  counts(held: readonly string[] = [], pulled: readonly string[] = []): port.Counts {
    return this.#countsOf(() => true, held, pulled);
  }

  countsOf(topics: readonly string[]): port.Counts {
    return this.#countsOf(
      ({ topic }) => topics.includes(topic),
      this.all()
        .map(({ topic }) => topic)
        .filter((topic) => !topics.includes(topic)),
      [],
    );
  }

  #countsOf(
    isCounted: (job: { readonly topic: string }) => boolean,
    held: readonly string[],
    pulled: readonly string[],
  ): port.Counts {
    const of = (topic: string, state: JobState) =>
      this.inState(state).filter((job) => job.topic === topic).length;
    // fromEntries, because assignment would fail for a topic named `__proto__`.
    const topics = Object.fromEntries(
      this.all()
        .filter(isCounted)
        .map(({ topic }) => [
          topic,
          Object.fromEntries(jobStates.map((state) => [state, of(topic, state)])) as port.StateCounts,
        ]),
    );
    const forgotten = this.inState('delayed').filter((job) => job.dueAt <= this.now());
    const ready = this.inState('ready').filter(({ topic }) => !pulled.includes(topic));
    const waiting = [...ready, ...forgotten].filter(({ topic }) => !held.includes(topic));
    const oldest = waiting
      .sort(byDue)
      .filter((job, n, all) => all.findIndex(({ topic }) => topic === job.topic) === n)
      .map(({ topic, id, dueAt }) => ({ topic, id, dueAt }));
    const [first] = oldest;
    return {
      topics,
      oldestOverdueMs: first === undefined ? null : Math.max(0, this.now() - first.dueAt),
      oldest,
    };
  }
}

function isBarred(
  { state, endedAt }: { state: string; endedAt: number },
  now: number,
  windowMs: number,
): boolean {
  const isEnd = state === 'done' || state === 'cancelled' || state === 'dead';
  return isEnd && endedAt - windowMs < now && now < endedAt + windowMs;
}
