// The producers of a world: pushes through the real use-case and queue of a dq-server, and the verbs of
// clients and operators. They keep what they were answered, and the rules on it.

import type { Dice } from '../../scripts/dice.ts';
import { DqError } from '../../src/core/errors.ts';
import { withAgain } from '../../src/core/extension.ts';
import type { JobKey } from '../../src/core/job.ts';
import { isTickId } from '../../src/core/job-id.ts';
import type { PushJob, PushOutcome } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { sleep, wallNow } from '../../src/runtime/time.ts';
import { acceptJob } from '../../src/use-cases/accept-job.ts';
import { acceptEdit } from '../../src/use-cases/edit-job.ts';
import type { Instances } from './instances.ts';
import { keyOf, seconds, tagOf } from './ledger.ts';
import type { Server } from './roles.ts';
import type { Scene } from './scene.ts';

interface Push {
  readonly tag: string;
  readonly topic: string;
  /** drawn again when its shard is unavailable */
  id: string;
  readonly isIdChosen: boolean;
  /** null: not answered */
  outcome: PushOutcome | null;
}

const verbs = ['cancel', 'cancel', 'run', 'reschedule', 'requeue'] as const;
const changing: ReadonlySet<string> = new Set(['run', 'rescheduled', 'requeued']);
/** Ids that producers choose, in each topic: few, so that they meet. */
const idsOfTopic = 8;
const idPrefix = 'job ';
/** Of the worlds, and of the pushes in such a world. */
const deadlineShares = { worlds: 0.25, pushes: 0.4 };
/** A deadline is so much later than the due time at most. */
const deadlineMsMax = 12_000;
const retryMs = 300;
const retriesMax = 100;
/** Numbers of the pushes while faults happen are below. */
const pushesMax = 1_000;
const afterFaultsMs = 500;
const isLater = (tag: string) => Number(tag.slice(1)) >= pushesMax;

export class Producers {
  readonly #scene: Scene;
  readonly #instances: Instances;
  readonly #pushes: Push[] = [];
  #sentLater = 0;
  #edits = 0;
  readonly #hasDeadlines: boolean;
  /** of the last push after the faults */
  #last: PushOutcome | null = null;
  readonly outcomes: Record<PushOutcome['kind'], number> = {
    ...{ stored: 0, kept: 0, job_exists: 0, ended: 0, not_stored: 0, unknown: 0 },
  };

  constructor(scene: Scene, instances: Instances) {
    this.#scene = scene;
    this.#instances = instances;
    this.#hasDeadlines = scene.loop.stream('deadlines').chance(deadlineShares.worlds);
  }

  /** The store takes pushes again. One that was not stored is sent again. */
  pushAfterFaults(): void {
    const { loop } = this.#scene;
    const n = pushesMax + this.#sentLater;
    this.#sentLater += 1;
    loop.after(afterFaultsMs, null, 'producer', () => this.push(n, loop.stream(`push ${n}`)));
  }

  /** Push number n, by a dq-server that works; later when there is none. */
  push(n: number, dice: Dice, retries = 0): void {
    const { loop, topics } = this.#scene;
    const { servers } = this.#instances;
    if (servers.length === 0) {
      // A daemon that gave up can be unavailable for longer than faults last.
      if (retries < retriesMax || n >= pushesMax)
        loop.after(retryMs, null, 'producer', () => this.push(n, dice, retries + 1));
      return;
    }
    const server = dice.pick(servers);
    const topic = dice.pick(topics.names);
    loop.after(0, server.process, 'push', () => {
      const job = this.#accept(server, `p${n}`, topic, dice);
      if (job === null) {
        // The server does not know yet that the topic takes jobs again.
        if (n >= pushesMax) this.pushAfterFaults();
        return;
      }
      const push: Push = {
        tag: `p${n}`,
        topic,
        id: job.id,
        isIdChosen: job.id.startsWith(idPrefix),
        outcome: null,
      };
      this.#pushes.push(push);
      server.process.onDeath.push(() => {
        if (push.outcome !== null) return;
        push.outcome = { kind: 'unknown', code: 'server_died' };
        this.#checkOrderly(push, push.outcome);
        if (isLater(push.tag)) this.#answeredLater(push.outcome);
      });
      server.open += 1;
      const settle = (outcome: PushOutcome) => {
        server.open -= 1;
        this.#settle(push, outcome);
      };
      server.pushes.addInTurn(dice.pick(server.connections), { job, settle });
    });
  }

  #accept({ ctx, process }: Server, tag: string, topic: string, dice: Dice): PushJob | null {
    const { loop } = this.#scene;
    const known = ctx.topics.get(topic);
    if (known === undefined) return null;
    const delayMs = dice.chance(0.5) ? dice.below(20_000) : null;
    const hasInstant = delayMs === null && dice.chance(0.2);
    const filling = dice.chance(0.1) ? dice.below(20_000) : dice.below(60);
    const id = dice.chance(0.5) ? `${idPrefix}${dice.below(idsOfTopic)}` : undefined;
    const at = hasInstant ? wallNow() + dice.below(10_000) : null;
    const windowMs = id === undefined || isLater(tag) ? null : this.#scene.windows.draw(tag);
    const deadline = this.#deadline(tag, at ?? wallNow() + (delayMs ?? 0));
    const request = {
      id,
      delay: delayMs === null ? undefined : `${delayMs}ms`,
      at: at === null ? undefined : String(at),
      deadline: deadline === null ? undefined : String(deadline),
      mode: dice.pick([undefined, undefined, 'keep', 'reject']),
      idempotency: windowMs === null ? undefined : `${windowMs}ms`,
      inQuery: false,
      contentType: 'text/plain',
      body: Buffer.from(`${tag};${deadline === null ? '' : `${deadline};`}${'x'.repeat(filling)}`),
      isLiteral: true,
    };
    let job: PushJob;
    try {
      job = acceptJob(request, known, {
        nowMs: wallNow(),
        bodyBytesMax: Number.MAX_SAFE_INTEGER,
      });
    } catch (error) {
      if (!(error instanceof DqError)) throw error;
      loop.tell(`${process.title} rejects push ${tag}: ${error.message}.`);
      return null;
    }
    const again = this.#scene.verdicts.first(tag);
    if (again > 0) job = { ...job, extension: withAgain(job.extension ?? undefined, again) };
    const delay = delayMs === null ? '' : `, delay ${seconds(delayMs)}`;
    const until = deadline === null ? '' : `, deadline in ${seconds(deadline - wallNow())}`;
    const window = windowMs === null ? '' : `, window ${seconds(windowMs)}`;
    loop.tell(
      `A producer pushes ${tag} to ${process.title}: ${topic}/${job.id}, ${job.mode}${delay}${until}${window}.`,
    );
    return job;
  }

  /** Epoch ms; null: without one. Of a stream of its own, so that the other pushes stay the same. */
  #deadline(tag: string, dueAt: number): number | null {
    if (!this.#hasDeadlines || isLater(tag)) return null;
    const dice = this.#scene.loop.stream(`deadline ${tag}`);
    return dice.chance(deadlineShares.pushes) ? dueAt + 1 + dice.below(deadlineMsMax) : null;
  }

  #settle(push: Push, outcome: PushOutcome): void {
    const { loop, judge, ledger } = this.#scene;
    const { tag } = push;
    const version = ledger.stored.get(tag) ?? ledger.lost.get(tag);
    loop.tell(`The answer to push ${tag} is ${outcome.kind}.`);
    judge.check(push.outcome === null, '4 one answer to each push', () => tag);
    push.outcome = outcome;
    if ('id' in outcome && outcome.id !== undefined) {
      judge.check(
        !push.isIdChosen,
        'decision 10: an id that a client chose is kept',
        () => `${tag}: ${outcome.id}`,
      );
      push.id = outcome.id;
    }
    if (isLater(tag)) this.#answeredLater(outcome);
    this.outcomes[outcome.kind] += 1;
    this.#checkOrderly(push, outcome);
    if (outcome.kind === 'stored') this.#checkRecorded(`push ${tag}`, keyOf(push), outcome.version, false);
    if (outcome.kind === 'stored')
      judge.check(
        version === outcome.version,
        '3 a reply follows the COMMIT',
        () => `push ${tag}: version ${outcome.version} is answered, ${version} is stored`,
      );
    else if (outcome.kind !== 'unknown')
      judge.check(
        version === undefined,
        '4 a rejected push is not stored',
        () => `push ${tag}: ${outcome.kind} is answered, version ${version} is stored`,
      );
  }

  /** What jobs.db takes while its jobs move is recorded when it arrives (src/store/compose.ts). */
  #checkRecorded(what: string, key: string, version: number, isEnd: boolean): void {
    const { left, journal } = this.#scene;
    if (left?.took(key, version) !== true) journal?.laws.answered(what, key, version, isEnd);
  }

  #answeredLater(outcome: PushOutcome): void {
    this.#last = outcome;
    if (outcome.kind === 'not_stored' || outcome.kind === 'unknown') this.pushAfterFaults();
  }

  /** Without a fault each push is stored, also by a server that leaves, unless jobs.db holds its id. */
  #checkOrderly({ tag, ...push }: Push, outcome: PushOutcome): void {
    const { judge, isOrderly, left } = this.#scene;
    const { kind } = outcome;
    const isHeld = kind === 'not_stored' && outcome.code === 'held' && left?.holds(push) === true;
    const isLost = !isHeld && (kind === 'unknown' || kind === 'not_stored');
    judge.check(!isOrderly || !isLost, 'a reload loses no push', () => `push ${tag}: ${kind}`);
  }

  /** One verb on a stored job; half of the calls name the version that the caller has read before. */
  verb(dice: Dice): void {
    const { loop, judge, ledger } = this.#scene;
    const { servers } = this.#instances;
    const entries = [...ledger.entries.values()];
    if (servers.length === 0 || entries.length === 0) return;
    const { topic, id, key, version: read } = dice.pick(entries);
    const version = dice.chance(0.5) ? read : undefined;
    this.#scene.operations.namedByClients.add(key);
    const { process, ctx } = dice.pick(servers);
    const verb = dice.pick(verbs);
    loop.after(dice.chance(0.5) ? 0 : dice.next() * 5_000, process, verb, () => {
      const { jobs } = ctx.store;
      const named = version === undefined ? { topic, id } : { topic, id, version };
      const when = { delayMs: dice.below(5_000) };
      const sent: Promise<readonly { readonly kind: string }[]> =
        verb === 'reschedule' ? jobs.reschedule([{ ...named, when }]) : jobs[verb]([named]);
      loop.tell(`A client sends ${verb} of ${key}${version === undefined ? '' : `, version ${version}`}.`);
      const before = ledger.entries.get(key);
      void sent.then(([outcome]) => {
        loop.tell(`The answer to ${verb} of ${key} is ${outcome?.kind}.`);
        judge.check(
          outcome?.kind !== 'absent' || before === undefined || ledger.entries.get(key) !== before,
          '1 a stored job is found',
          () => `${verb} of ${key}, version ${before?.version}`,
        );
        const { kind, version: now = read } = outcome as { readonly kind: string; readonly version?: number };
        if (kind === 'cancelled') this.#checkRecorded(verb, key, read, true);
        else if (changing.has(kind)) this.#checkRecorded(verb, key, now, false);
      });
    });
  }

  /** One edit of a stored job by an operator who reads it first, often some time before. */
  edit(dice: Dice): void {
    const { loop, ledger } = this.#scene;
    const { servers } = this.#instances;
    const entries = [...ledger.entries.values()].filter(({ id }) => !isTickId(id));
    if (servers.length === 0 || entries.length === 0) return;
    const { key, topic, id, tag } = dice.pick(entries);
    this.#scene.operations.namedByClients.add(key);
    const server = dice.pick(servers);
    const waitMs = dice.chance(0.5) ? 0 : dice.below(3_000);
    loop.after(dice.next() * 3_000, server.process, 'edit', () => {
      void this.#edit(server, { topic, id }, waitMs, dice).catch((error: unknown) => {
        if (!(error instanceof StoreError || error instanceof DqError)) throw error;
        loop.tell(`The edit of push ${tag} fails: ${error.message}.`);
      });
    });
  }

  async #edit({ ctx }: Server, key: JobKey, waitMs: number, dice: Dice): Promise<void> {
    const { loop, judge, ledger } = this.#scene;
    const { jobs } = ctx.store;
    const topic = ctx.topics.get(key.topic);
    const job = await jobs.get(key);
    if (job === null || topic === undefined) return;
    if (waitMs > 0) await sleep(waitMs);
    this.#edits += 1;
    const filling = 'y'.repeat(dice.chance(0.2) ? dice.below(20_000) : dice.below(60));
    const request = {
      body: editedBody(job.body, `edit ${this.#edits} ${filling}`),
      requeue: (job.state === 'dead') !== dice.chance(0.1),
      ...(dice.chance(0.4) ? { delay: `${dice.below(5_000)}ms` } : {}),
    };
    const terms = { nowMs: wallNow(), bodyBytesMax: Number.MAX_SAFE_INTEGER };
    const item = acceptEdit(job, topic, Buffer.from(JSON.stringify(request)), terms);
    const name = keyOf(key);
    loop.tell(`An operator sends edit ${this.#edits} of ${name}, version ${job.version}.`);
    const [outcome] = await jobs.edit([item]);
    loop.tell(`The answer to the edit of ${name} is ${outcome?.kind}.`);
    if (outcome?.kind !== 'edited') return;
    const tag = tagOf(job.body);
    judge.check(
      ledger.all.some((each) => each.hadEdit(tag, outcome.version)),
      '3 a reply follows the COMMIT',
      () => `edit of ${name}: version ${outcome.version} is answered`,
    );
    this.#checkRecorded('edit', name, outcome.version, false);
  }

  get isAnswered(): boolean {
    // A push that is not stored after the faults, or by a server that died, is sent again.
    if (this.#last?.kind === 'not_stored' || this.#last?.kind === 'unknown') return false;
    return this.#pushes.every(({ outcome }) => outcome !== null);
  }

  checkEnd(): void {
    const { judge, ledger, journal } = this.#scene;
    judge.check(
      this.#last?.kind !== 'not_stored',
      '4 pushes are stored after the faults',
      () => `the last one is not: ${JSON.stringify(this.#last)}`,
    );
    for (const { tag, outcome, ...key } of this.#pushes) {
      if (outcome?.kind === 'stored') journal?.laws.checkAccepted(tag, keyOf(key), outcome.version);
      judge.check(outcome !== null, '4 one answer to each push', () => `push ${tag} has none`);
      const isStored = ledger.stored.has(tag) || ledger.lost.has(tag);
      const isKept = outcome?.kind !== 'not_stored' || !isStored;
      judge.check(isKept, '4 a rejected push is not stored', () => `push ${tag} was stored later`);
    }
  }
}

/** Keeps what tells whose job it is: the prefix of a push, the members of an outcome job. */
function editedBody(body: Buffer, text: string): unknown {
  if (body.toString('latin1', 0, 12) === '{"type":"dq.')
    return { ...JSON.parse(body.toString()), edit: text };
  const [prefix = ''] = /^[^;]*;(?:\d+;)?/.exec(body.toString('latin1', 0, 60)) ?? [];
  return `${prefix}${text}`;
}
