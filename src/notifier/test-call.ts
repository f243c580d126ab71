// Makes the test call that an operator asks for: one real callback under the egress policy, signed as always,
// with the header `dq-test: true`; with delivery mq one message with that property.
// Invariant: it changes nothing: no job, no statistics, no metric, no log line of an attempt, no health of
// the topic or its origin, no sample.

import type { Dispatcher } from 'undici';
import type { Brokers } from '../broker/brokers.ts';
import { brokerMessageOf, type PublicationOptions, type PublishEnd } from '../broker/publication.ts';
import { formatTarget } from '../core/broker.ts';
import type { Clock } from '../core/calendar.ts';
import type { ReservedJob } from '../core/job.ts';
import type { Topic } from '../core/topic/topic.ts';
import { judge, type ReplyRules, rulesOf, settle } from '../core/verdict.ts';
import type { TestCall, TestCallResult } from '../process/questions.ts';
import { printable, printableExcerpt } from '../runtime/printable-text.ts';
import { monotonicNow, setImmediate } from '../runtime/time.ts';
import { headerLines, ruleTexts } from './attempt-detail.ts';
import { Call, type CallEnd, type CallRequest, callRequestOf } from './call-back.ts';
import { type Caller, type Dial, type DialMoment, EventRelay } from './connector.ts';
import { notifierLimits } from './limits.ts';
import type { Pools } from './pools.ts';

interface TestCallOptions {
  readonly pools: Pick<Pools, 'dispatch' | 'checkFor'>;
  readonly brokers: Pick<Brokers, 'publish'>;
  /** storage clock, epoch ms */
  readonly now: () => number;
  readonly clock: Clock;
  /** of dq */
  readonly version: string;
  readonly retryUnitMs: number;
}

interface Ended {
  readonly end: CallEnd;
  readonly detail: string;
  readonly phases: TestCallResult['phases'];
}

/** Resolves at the latest after the topic's timeout or notifierLimits.testCallMsMax. Rejects for a topic that
 *  no registration accepts. */
export async function testCall(given: TestCall, options: TestCallOptions): Promise<TestCallResult> {
  const { pools, now, clock, version, retryUnitMs } = options;
  const { topic } = given;
  if (topic.delivery === 'mq') return testPublication(given, options);
  const url = new URL(topic.callbackUrl);
  const target = { topic, origin: url.origin, path: url.pathname + url.search };
  const nowMs = now();
  const built = callRequestOf(jobOf(given, nowMs), target, { nowMs, clock, version, pools });
  const headers = { ...(built.options.headers as Record<string, string>), 'dq-test': 'true' };
  const request = {
    ...built,
    options: { ...built.options, headers },
    timeoutMs: Math.min(built.timeoutMs, notifierLimits.testCallMsMax),
  };
  const { end, detail, phases } = await callOnce(pools, request);
  const rules = rulesOf(topic);
  const named = [rules.deadIf, rules.againIf, rules.retryIf].filter((rule) => rule !== null);
  return {
    request: {
      method: topic.method,
      url: target.origin + String(built.options.path),
      headers,
      body: String(built.options.body),
    },
    reply:
      end.kind === 'replied'
        ? {
            status: end.status,
            headers: headerLines(end, notifierLimits.testHeadersMax, notifierLimits.testHeaderMax),
            body: printableLines(end.text.slice(0, notifierLimits.testReplyMax)),
            cut: end.cut || end.text.length > notifierLimits.testReplyMax,
          }
        : null,
    phases,
    verdict: verdictOf(topic, rules, end, detail, now(), retryUnitMs),
    ruleValues: end.kind === 'replied' && named.length > 0 ? ruleTexts(named, end, 1) : null,
  };
}

/** Publishes one message with the property `dq-test: true`. */
async function testPublication(
  given: TestCall,
  { brokers, now, retryUnitMs }: TestCallOptions,
): Promise<TestCallResult> {
  const { topic } = given;
  const nowMs = now();
  const built = brokerMessageOf(jobOf(given, nowMs), topic, { nowMs, traceparent: undefined });
  const message = { ...built, properties: { ...built.properties, 'dq-test': 'true' } };
  const timeoutMs = Math.min(topic.timeoutMs, notifierLimits.testCallMsMax);
  const { end, durationMs, detail } = await new Promise<{
    readonly end: PublishEnd;
    readonly durationMs: number;
    readonly detail: string;
  }>((resolve) => {
    const onEnd: PublicationOptions['onEnd'] = (...[end, durationMs, detail]) =>
      resolve({ end, durationMs, detail });
    brokers.publish({ target: topic.target, message, timeoutMs, onEnd });
  });
  return {
    request: {
      method: 'PUBLISH',
      url: formatTarget(topic.target),
      headers: Object.fromEntries(
        Object.entries({ 'message-id': message.id, ...message.properties }).map(([name, value]) => [
          name,
          String(value),
        ]),
      ),
      body: given.body,
    },
    reply: null,
    phases: {
      lookupMs: null,
      connectMs: null,
      tlsMs: null,
      waitMs: null,
      readMs: null,
      totalMs: Math.round(durationMs),
    },
    verdict: verdictOf(topic, rulesOf(topic), end, detail, now(), retryUnitMs),
    ruleValues: null,
  };
}

/** A first attempt that is due now. Receivers get another webhook-id for each test call. */
function jobOf({ topic, body, contentType }: TestCall, nowMs: number): ReservedJob {
  return {
    topic: topic.topic,
    id: `test-${nowMs}`,
    version: nowMs,
    origin: nowMs,
    token: 0,
    dueAt: nowMs,
    acceptedAt: nowMs,
    failures: 0,
    strikes: 0,
    leaseMs: 0,
    contentType,
    body: Buffer.from(body),
  };
}

function callOnce(pools: Pick<Pools, 'dispatch'>, request: CallRequest): Promise<Ended> {
  return new Promise((resolve) => {
    let timed: TimedCaller | null = null;
    const dispatch: Pools['dispatch'] = (options, check, caller, isAlone) => {
      timed = new TimedCaller(caller);
      pools.dispatch(options, check, timed, isAlone);
    };
    const onEnd = (end: CallEnd, durationMs: number, detail: string) => {
      const phases = (timed as TimedCaller).phases(monotonicNow(), durationMs);
      // Outside the HTTP client: an exception there would count as an error of the connection.
      setImmediate(() => resolve({ end, detail, phases }));
    };
    new Call({ dispatch }, request, onEnd);
  });
}

function verdictOf(
  topic: Topic,
  rules: ReplyRules,
  end: CallEnd,
  detail: string,
  nowMs: number,
  retryUnitMs: number,
): TestCallResult['verdict'] {
  const text = printableExcerpt(detail, notifierLimits.detailMax);
  if (end.kind === 'not_started')
    return { outcome: 'not_started', reason: null, detail: text, next: null, delayMs: null };
  const verdict = judge(topic, rules, { attempt: 1, nowMs }, end);
  // 0.5: without jitter.
  const settlement = settle(topic, 0, verdict, retryUnitMs, () => 0.5);
  return {
    outcome: verdict.outcome,
    reason: verdict.outcome === 'failed' ? verdict.reason : null,
    detail: verdict.outcome === 'failed' && verdict.detail !== undefined ? verdict.detail : text,
    next: settlement.kind,
    delayMs: 'delayMs' in settlement ? settlement.delayMs : null,
  };
}

/** The page shows line breaks and tabs. */
function printableLines(text: string): string {
  return text
    .split(/(\r?\n|\t)/)
    .map((part, n) => (n % 2 === 1 ? part : printable(part)))
    .join('');
}

type Moment = 'dial' | DialMoment | 'request' | 'head';

/** Passes the events of one call on, and notes when its connection and its reply arrived. */
class TimedCaller extends EventRelay<Caller> implements Caller {
  /** monotonicNow() */
  readonly #at: Partial<Record<Moment, number>> = {};

  /** `endedAt`: monotonicNow() */
  phases(endedAt: number, totalMs: number): TestCallResult['phases'] {
    const { dial, found, connected, secured, request, head } = this.#at;
    const since = (from: number | undefined, to: number | undefined) =>
      from === undefined || to === undefined ? null : Math.max(0, Math.round(to - from));
    return {
      lookupMs: since(dial, found),
      connectMs: since(found ?? dial, connected),
      tlsMs: since(connected, secured),
      waitMs: since(request, head),
      readMs: since(head, head === undefined ? undefined : endedAt),
      totalMs: Math.round(totalMs),
    };
  }

  onDial(dial: Dial): void {
    this.#note('dial');
    dial.onMoment((moment) => this.#note(moment));
    this.to.onDial(dial);
  }

  override onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.#note('request');
    super.onRequestStart(controller, context);
  }

  override onResponseStart(...head: Parameters<Caller['onResponseStart']>): void {
    this.#note('head');
    super.onResponseStart(...head);
  }

  #note(moment: Moment): void {
    this.#at[moment] = monotonicNow();
  }
}
