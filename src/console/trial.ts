// Trial lets a newcomer see a delivery: it opens a receiver on a free port of the loopback address, registers
// the topic trial.hello for it, pushes a job through the API as curl would, and keeps the request received.
// Invariant: it removes what it made after its time, at the end of the process and, after a kill, at the
// next start. It touches no topic that it has not made: its own have its owner and a callback to a receiver.

import type { Api } from '../api/api-context.ts';
import {
  beginTrialSchema,
  endTrialSchema,
  getTrialSchema,
  type TrialJson,
  type TrialRequestJson,
} from '../contract/api/trial.ts';
import { trial, trialOrigin } from '../core/egress-policy.ts';
import { catalogue, DqError, type ErrorCode } from '../core/errors.ts';
import { makeSecret } from '../core/topic/secrets.ts';
import { parseTopicInput } from '../core/topic/settings.ts';
import type { Topic } from '../core/topic/topic.ts';
import type { RoleContext } from '../process/role.ts';
import { exchange } from '../runtime/exchange.ts';
import { urlOfHost } from '../runtime/listen.ts';
import type { Service } from '../runtime/service.ts';
import {
  clearTimeout,
  monotonicNow,
  setTimeout,
  sleep,
  type Timer,
  timeoutSignal,
  wallNow,
} from '../runtime/time.ts';
import { SinkKeys } from '../sink/signature-check.ts';
import { openSink, type Sink, type SinkReport } from '../sink/sink-server.ts';
import { createTopic, findTopic } from '../use-cases/change-topic.ts';
import { removeTopic } from '../use-cases/remove-topic.ts';
import { consoleLimits } from './limits.ts';

/** Marks the topics of trials. */
const owner = 'dq trial';
const path = '/hello';
const jobBody = '{"hello":"dq"}';
const delay = '3s';

/** What GET /v1/trial shows. */
type TrialView = NonNullable<TrialJson['trial']>;

interface Running {
  readonly sink: Sink;
  readonly callbackUrl: string;
  readonly timer: Timer;
  readonly endsAt: number;
  job: PushedJob | null;
  received: TrialRequestJson | null;
}

type PushedJob = Pick<TrialView, 'id' | 'acceptedAt' | 'dueAt' | 'answeredMs'>;

export class Trial implements Service {
  readonly #role: RoleContext;
  readonly #ended = new AbortController();
  #running: Running | null = null;
  /** One change at a time. */
  #last: Promise<unknown> = Promise.resolve();
  #serverPort: number;

  constructor(role: RoleContext) {
    this.#role = role;
    this.#serverPort = role.config['server.port'];
    role.link.onMessage((message) => {
      // With server.port 0 only the master knows it.
      if (message.kind === 'listening' && message.host === undefined) this.#serverPort = message.port;
    });
  }

  /** Removes what an earlier process left, in the background: the console does not wait for the registry. */
  async start(): Promise<void> {
    void this.#removeLeftOver();
  }

  async drain(deadlineMs: number): Promise<void> {
    this.#ended.abort();
    const running = this.#running;
    if (running === null) return;
    this.#close(running);
    // Without the wait of removeTopic for pushes in other processes, which the deadline does not allow. What
    // is left, the next start removes.
    const removal = this.#removeNow(running.callbackUrl).catch(() => undefined);
    await Promise.race([removal, sleep(deadlineMs, { ref: false })]);
  }

  /** Begins a trial, or pushes one more job to the one that runs. Rejects with topic_exists,
   *  trial_impossible, or the error of the push. */
  begin(): Promise<TrialView | null> {
    return this.#alone(async () => {
      const running = this.#running ?? (await this.#open());
      running.received = null;
      running.job = null;
      running.job = await this.#push();
      return this.view();
    });
  }

  /** Resolves when nothing of it is left. */
  end(): Promise<void> {
    return this.#alone(async () => {
      // Until its topic is gone, the trial is shown.
      const running = this.#running;
      try {
        await this.#remove();
      } finally {
        if (running !== null) this.#close(running);
      }
    });
  }

  /** null: no trial runs. */
  async view(): Promise<TrialView | null> {
    const running = this.#running;
    if (running?.job == null) return null;
    const { callbackUrl, endsAt, received, job } = running;
    return {
      topic: trial.topic,
      callbackUrl,
      endsAt: new Date(endsAt).toISOString(),
      serverUrl: this.#serverUrl,
      body: jobBody,
      delay,
      ...job,
      request: received,
      failure: received === null ? await this.#failureOf(job.id) : null,
    };
  }

  /** Its receiver listens before the topic exists, and the notifiers know it before a job is due. */
  async #open(): Promise<Running> {
    const { registry, config, link } = this.#role;
    if (config['mysql.url'] !== '')
      throw new DqError(
        'trial_impossible',
        'mysql.url is set: another instance could get the job and call its own machine; use dq sink',
      );
    const known = await findTopic(registry, trial.topic);
    if (known !== null) await this.#remove();
    const secret = makeSecret();
    const keys = new SinkKeys();
    keys.add(secret);
    const sink = await openSink({
      host: trial.address,
      port: 0,
      answer: { status: 200, text: '{"code":200}', contentType: 'application/json', delayMs: 0 },
      keys,
      onRequest: (report) => this.#receive(report),
    });
    const port = Number(new URL(sink.url).port);
    link.send({ kind: 'trial', port });
    const timer = setTimeout(() => void this.#endInTime(), consoleLimits.trialMs);
    timer.unref();
    const running: Running = {
      sink,
      callbackUrl: trialOrigin(port) + path,
      timer,
      endsAt: wallNow() + consoleLimits.trialMs,
      job: null,
      received: null,
    };
    this.#running = running;
    try {
      await createTopic(registry, trial.topic, topicInput(running.callbackUrl, secret));
    } catch (error) {
      this.#close(running);
      throw error;
    }
    return running;
  }

  /** Through the port of the API, as a producer does. */
  async #push(): Promise<PushedJob> {
    const acceptedAt = new Date(this.#role.clock.now()).toISOString();
    const since = monotonicNow();
    let status: number;
    let body: { readonly id?: string; readonly dueAt?: string; readonly code?: string; detail?: string };
    try {
      const reply = await exchange(`${this.#serverUrl}/v1/topics/${trial.topic}/jobs?delay=${delay}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${this.#role.adminToken}`,
        },
        body: jobBody,
        signal: timeoutSignal(consoleLimits.trialPushMs),
      });
      status = reply.status;
      body = JSON.parse(reply.text) as typeof body;
    } catch (error) {
      throw new DqError('unavailable', `the API at ${this.#serverUrl} does not answer`, { cause: error });
    }
    const answeredMs = Math.round((monotonicNow() - since) * 10) / 10;
    if (body.id !== undefined && body.dueAt !== undefined && status < 300)
      return { id: body.id, acceptedAt, dueAt: body.dueAt, answeredMs };
    const code = body.code !== undefined && Object.hasOwn(catalogue, body.code) ? body.code : 'unavailable';
    throw new DqError(code as ErrorCode, body.detail ?? `the API answers ${status}`);
  }

  /** Any program of this machine can call the receiver: only requests for the job count. */
  #receive(report: SinkReport): void {
    const running = this.#running;
    if (running === null || report.topic !== trial.topic) return;
    if (running.received !== null || (running.job !== null && report.id !== running.job.id)) return;
    running.received = received(report);
  }

  async #failureOf(id: string): Promise<TrialView['failure']> {
    const job = await this.#role.store.jobs.get({ topic: trial.topic, id });
    const last = job?.attempts.at(-1);
    return last?.reason == null ? null : { reason: last.reason, status: last.status };
  }

  #close({ sink, timer }: Running): void {
    clearTimeout(timer);
    this.#running = null;
    this.#role.link.send({ kind: 'trial', port: null });
    // Its connections are closed at once.
    void sink.close();
  }

  async #endInTime(): Promise<void> {
    await this.end().catch(() => void this.#removeLeftOver());
  }

  /** Tries until it succeeds or the process ends: the registry or the store may be unavailable. */
  async #removeLeftOver(): Promise<void> {
    const { signal } = this.#ended;
    for (let waitMs = 1_000; !signal.aborted; waitMs = Math.min(2 * waitMs, consoleLimits.trialRetryMsMax)) {
      try {
        await this.#alone(async () => {
          if (this.#running === null) await this.#remove(true);
        });
        return;
      } catch (error) {
        if (waitMs === 1_000) this.#role.log.error('console: cannot remove what a trial left', error);
      }
      await sleep(waitMs, { signal, ref: false }).catch(() => undefined);
    }
  }

  /** Removes the topic of a trial with its jobs. Another topic of this name: topic_exists, or nothing. */
  async #remove(onlyOwn = false): Promise<void> {
    const { registry, store, topics } = this.#role;
    const known = await findTopic(registry, trial.topic);
    if (known === null) return;
    if (!isOfTrial(known)) {
      if (onlyOwn) return;
      throw new DqError('topic_exists', `topic ${trial.topic} exists and is not of a trial; remove it first`);
    }
    await removeTopic(registry, store.admin, trial.topic, true);
    await topics.refresh().catch(() => undefined);
  }

  async #removeNow(callbackUrl: string): Promise<void> {
    const { registry, store } = this.#role;
    const known = await findTopic(registry, trial.topic);
    // In a reload the next console may have a trial of its own.
    if (known === null || !isOfTrial(known) || known.callbackUrl !== callbackUrl) return;
    const { more } = await store.admin.purgeTopic(trial.topic, consoleLimits.trialJobsMax);
    if (!more) await registry.remove(trial.topic, known.revision);
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work, work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  get #serverUrl(): string {
    return urlOfHost(this.#role.config['server.host'], this.#serverPort);
  }
}

function isOfTrial(known: object): known is Topic {
  const { owner: given, callbackUrl = '' } = known as Partial<Topic>;
  return given === owner && new RegExp(`^http://127\\.0\\.0\\.1:\\d+${path}$`).test(callbackUrl);
}

/** The job stays alive as long as the trial: it becomes no dead letter, and no alert is sent. */
function topicInput(callbackUrl: string, secret: string) {
  const parsed = parseTopicInput(
    {
      topic: trial.topic,
      callbackUrl,
      secret,
      owner,
      title: 'Trial of the console',
      maxAttempts: 100,
      backoff: ['1s', '2s', '5s', '10s'],
    },
    // The notifiers let this receiver pass (TrialPass of pools.ts).
    { refusesUrl: () => null, brokers: new Map(), hooks: new Set(), historyMs: 0 },
    true,
  );
  if (!parsed.ok) throw parsed.error;
  return parsed.input;
}

function received(report: SinkReport): TrialRequestJson {
  const { at, method, path: target, rawHeaders, body, attempt, latenessMs, signature, reason } = report;
  const headers = Array.from({ length: Math.floor(rawHeaders.length / 2) }, (_, n) => ({
    name: (rawHeaders[2 * n] ?? '').slice(0, consoleLimits.trialTextMax),
    value: (rawHeaders[2 * n + 1] ?? '').slice(0, consoleLimits.trialTextMax),
  }));
  return {
    at: new Date(at).toISOString(),
    method,
    path: target.slice(0, consoleLimits.trialTextMax),
    headers: headers.slice(0, consoleLimits.trialHeadersMax),
    body: body.subarray(0, consoleLimits.trialTextMax).toString(),
    attempt,
    latenessMs,
    signature,
    reason,
  };
}

/** Only on the port of the console: the receiver is in its process. */
export function trialRoutes(api: Api, trial: Trial): void {
  const config = { access: { scope: 'admin', topics: 'every' } } as const;

  api.post('/v1/trial', { schema: beginTrialSchema, config }, async (_, answer) =>
    answer.code(201).send({ trial: await trial.begin() }),
  );

  api.get('/v1/trial', { schema: getTrialSchema, config }, async () => ({ trial: await trial.view() }));

  api.delete('/v1/trial', { schema: endTrialSchema, config }, async () => {
    await trial.end();
    return { deleted: true };
  });
}
