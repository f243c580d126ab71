// Explains why a notifier calls no job of a topic now, or few: a reason for each rule of capacity.ts that
// applies, but for those that last a reserve: grants of other partitions, and untriedAtOnce. Reads only:
// asking changes nothing.

import type { CapacityReason } from '../core/capacity-reasons.ts';
import { formatDuration } from '../core/duration.ts';
import { limits } from '../core/limits.ts';
import type { KnownTopic } from '../core/topic/topic.ts';
import type { Partition } from '../ports/job-store.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import type { CallBudget } from './call-budget.ts';
import { notifierLimits } from './limits.ts';
import type { PartitionFailures } from './partition-failures.ts';
import type { PoisonIsolation } from './poison-isolation.ts';
import type { Probes } from './probes.ts';
import type { Settler } from './settler.ts';
import type { NotifierShare, TopicRates } from './topic-rates.ts';
import type { SlowDown, TopicTarget } from './topic-target.ts';
import type { TopicTargets } from './topic-targets.ts';

/** The parts of a notifier's capacity, to be read. */
export interface CapacityView {
  readonly topics: Pick<TopicBook, 'get' | 'isUnreadable' | 'isKnown'>;
  readonly settler: Pick<Settler, 'unsettled'>;
  readonly isolation: PoisonIsolation;
  readonly partitions: () => readonly Partition[];
  /** as in JobStore; absent: there is one partition */
  readonly nameOf?: ((partition: Partition) => string) | undefined;
  readonly failures: Pick<PartitionFailures, 'failing' | 'healing'>;
  readonly share: NotifierShare;
  readonly budget: CallBudget;
  readonly targets: TopicTargets;
  readonly rates: TopicRates;
  readonly probes: Probes;
  /** targets that may take the kept slots */
  readonly trusted: ReadonlySet<TopicTarget>;
}

/** `nowMs`: monotonicNow() */
export function explainCapacity(view: CapacityView, name: string, nowMs: number): readonly CapacityReason[] {
  const topic = view.topics.get(name);
  const target = view.targets.get(name);
  return [
    ...(topic === undefined ? unknown(view, name) : ofTopic(view, topic, nowMs)),
    ...(target === undefined ? [] : ofTarget(view, target, nowMs)),
    ...ofNotifier(view, name, nowMs),
  ];
}

function unknown({ topics }: CapacityView, topic: string): readonly CapacityReason[] {
  if (!topics.isKnown)
    return [
      {
        code: 'unknown_topics',
        message: 'this notifier has not read the topics since its start: the registry does not answer',
        remedy: 'check the registry: dq doctor, GET /readyz',
        values: {},
      },
    ];
  return topics.isUnreadable(topic)
    ? [
        {
          code: 'unreadable_topic',
          message: 'the stored record of the topic cannot be read',
          remedy:
            'replace the topic with PUT /v1/topics/{topic}, or remove it; the error log names the cause',
          values: {},
        },
      ]
    : [
        {
          code: 'unknown_topic',
          message: 'this notifier knows no topic of this name',
          remedy: 'register the topic with dq topic add; a new topic is known everywhere within 2 s',
          values: {},
        },
      ];
}

function ofTopic(view: CapacityView, topic: KnownTopic, nowMs: number): readonly CapacityReason[] {
  const { topic: name, concurrency, rate } = topic;
  const { share, budget, rates, targets } = view;
  const reasons: CapacityReason[] = [];
  if (topic.delivery === 'pull')
    reasons.push({
      code: 'pulled',
      message: 'clients pull the jobs of this topic; dq does not call it',
      remedy: `pull them: dq pull ${name}`,
      values: {},
    });
  const { broker } = topic.target;
  const failure = targets.failureOf(name);
  if (topic.delivery === 'mq' && !targets.hasBroker(broker))
    reasons.push({
      code: 'unknown_broker',
      message: `brokers of the configuration has no "${broker}"; the jobs are held`,
      remedy: `add it to brokers, then dq reload; or dq topic set ${name} --target BROKER/QUEUE`,
      values: { broker },
    });
  else if (failure !== null)
    reasons.push({
      code: 'cannot_be_called',
      message: `the stored topic cannot be called: ${failure}`,
      remedy: 'replace the topic with PUT /v1/topics/{topic}; its jobs are held until then',
      values: { failure },
    });
  const { state } = topic;
  if (state !== 'active')
    reasons.push({
      code: state,
      message: `the topic is ${state}`,
      remedy: `dq topic resume ${name}`,
      values: {},
    });
  const calls = share.callsOf(topic);
  const running = budget.runningOf(name);
  const { index, count: notifiers } = share;
  // Of a limit below the number of notifiers each of the first ones has 1.
  const callers = rate > 0 ? Math.min(concurrency, rate) : concurrency;
  const titles = callers === 1 ? 'dq-notifier-0' : `dq-notifier-0 to dq-notifier-${callers - 1}`;
  if (topic.delivery === 'pull') return reasons;
  const tooLow = {
    ...(calls === 0 && { concurrency }),
    ...(rate > 0 && share.of(rate) === 0 && { rate }),
  };
  const names = Object.keys(tooLow);
  if (names.length > 0) {
    const found = Object.entries(tooLow).map(([limit, value]) => `${limit} ${value}`);
    const are = names.length === 1 ? 'is' : 'are';
    reasons.push({
      code: 'no_share',
      message: `${found.join(' and ')} ${are} smaller than the number of notifiers (${notifiers}), and the share of this one is 0`,
      remedy: `${titles} may call this topic; for calls from every notifier raise ${names.join(' and ')} to ${notifiers}`,
      values: { ...tooLow, notifiers, index, callers: titles },
    });
  } else {
    if (running >= calls) reasons.push(fullReason(view, topic, running, calls));
    const waitMs = Math.ceil(rates.waitMs(topic, nowMs));
    const part = targets.get(name)?.ramp?.part ?? 1;
    const now = rounded(rate * part);
    const isScaled = part === 1 ? '' : ` (${Math.round(part * 100)} % of ${rate} after an outage or a pause)`;
    if (waitMs > 0)
      reasons.push({
        code: 'rate_reached',
        message: `rate ${now} a second${isScaled} is used up; the next call may start in ${formatDuration(waitMs)}`,
        remedy: `wait, or raise rate: dq topic set ${name} --rate N (0 = no limit)`,
        values: { rate: now, whole: rate, share: rounded(share.of(rate) * part), waitMs },
      });
  }
  return reasons;
}

function fullReason(
  { share, budget }: CapacityView,
  { topic, concurrency }: KnownTopic,
  running: number,
  calls: number,
): CapacityReason {
  if (share.of(concurrency) > share.callsMax)
    return {
      code: 'half_of_slots',
      message: `${running} calls run, and one topic gets at most half of the ${budget.slots} slots (${calls})`,
      remedy: `make the receiver answer faster; where it answers in time (dq topic test ${topic}), raise notifier.slots or notifier.workers`,
      values: { running, limit: calls, slots: budget.slots },
    };
  return {
    code: 'concurrency_reached',
    message: `${running} of ${calls} calls run (concurrency ${concurrency} over ${share.count} notifiers)`,
    remedy: `make the receiver answer faster; where it answers in time (dq topic test ${topic}), raise concurrency: dq topic set ${topic} --concurrency N`,
    values: { running, limit: calls, concurrency, notifiers: share.count },
  };
}

function slowDownReason(
  target: TopicTarget,
  { until, isHeld }: SlowDown,
  running: number,
  nowMs: number,
): CapacityReason {
  const waitMs = isHeld ? Math.max(0, Math.ceil(until - nowMs)) : 0;
  const next = isHeld
    ? `the next call starts in ${formatDuration(waitMs)}`
    : `one call probes it, ${running} run`;
  return {
    code: 'slowed_down',
    message: `the receiver asks to slow down (429, or 503 with Retry-After); ${next}`,
    remedy: `wait; to avoid it, set what the receiver takes: dq topic set ${target.topic.topic} --rate N`,
    values: { waitMs, running },
  };
}

function ofTarget(
  { budget, probes }: CapacityView,
  target: TopicTarget,
  nowMs: number,
): readonly CapacityReason[] {
  const reasons: CapacityReason[] = [];
  const { health, hostname: host, unreachedInRow, lastUnreached } = target;
  const running = budget.runningOf(target.topic.topic);
  const restricted = { running, restrictedTopics: probes.size, probesMax: budget.probesMax };
  if (target.isAiling)
    reasons.push({
      code: 'ailing',
      message: `${unreachedInRow === 0 ? 'after an outage, the receiver answers with errors' : `${unreachedInRow} attempts in a row did not reach the receiver: ${lastUnreached}`}; at most ${target.capacity} calls probe it at once; its calls that run now: ${running}`,
      remedy: `one success lifts this; dq topic test ${target.topic.topic} makes a call now`,
      values: {
        attemptsInRow: unreachedInRow,
        ...(unreachedInRow > 0 && { why: lastUnreached }),
        ...restricted,
      },
    });
  if (target.ramp !== null)
    reasons.push({
      code: 'ramping',
      message: `the endpoint answers again after an outage or a pause that it asked for; the topic has ${Math.round(target.ramp.part * 100)} % of its limits: ${target.capacity} of ${target.share} calls at once, ${running} run`,
      remedy: 'wait; the part doubles after each second in which most attempts reach the endpoint',
      values: { part: target.ramp.part, limit: target.capacity, calls: target.share, running },
    });
  if (target.slowDown !== null) reasons.push(slowDownReason(target, target.slowDown, running, nowMs));
  if (target.isSlow)
    reasons.push({
      code: 'slow_calls',
      message: `a call ran for longer than ${formatDuration(Math.round(target.patienceMs))}, so new calls of the topic are probes; its calls that run now: ${running}`,
      remedy: 'one success or quick reply lifts this; check why the receiver hangs',
      values: { patienceMs: Math.round(target.patienceMs), ...restricted },
    });
  if (health.isAiling) {
    const forMs = Math.ceil((nowMs - health.unreachedSince) / 1_000) * 1_000;
    reasons.push({
      code: 'origin_ailing',
      message: `${target.origin} has given no reply in time for ${formatDuration(forMs)}: ${health.lastUnreached}; at most ${notifierLimits.ailingOriginCallsMax} probes call it at once, over all topics; probes that run now: ${health.probes}`,
      remedy: `bring the server of the callback URL, or the broker, back, or correct the address; one reply of it lifts this: dq topic test ${target.topic.topic}`,
      values: {
        origin: target.origin,
        forMs,
        why: health.lastUnreached,
        topics: health.targets,
        probes: health.probes,
        probesMax: notifierLimits.ailingOriginCallsMax,
      },
    });
  }
  if (target.isQueued)
    reasons.push({
      code: 'lookup_queued',
      message: `the look-up of the host name ${host} waits for its turn`,
      remedy: 'check the name servers of this machine: look-ups that hang delay others',
      values: { host },
    });
  return reasons;
}

function ofNotifier(view: CapacityView, name: string, nowMs: number): readonly CapacityReason[] {
  const { budget, isolation, settler, failures, targets, trusted } = view;
  const reasons: CapacityReason[] = [];
  const target = targets.get(name);
  const isTrusted = target !== undefined && trusted.has(target);
  const mayTakeKept = isTrusted && budget.runningOf(name) === 0 && budget.freeSlots > 0;
  // Probes take no slot.
  if (budget.openSlots <= 0 && !mayTakeKept && target?.isRestricted !== true) {
    const { slots, keptSlots, freeSlots } = budget;
    reasons.push({
      code: 'no_free_slot',
      message: `${slots - freeSlots} of ${slots} slots are in use; the last ${keptSlots} are kept for the ${limits.keptTopicsMax} topics with the latest successes, while they run no call`,
      remedy: 'raise notifier.slots or notifier.workers',
      values: { slots, used: slots - freeSlots, kept: keptSlots, keptTopics: limits.keptTopicsMax },
    });
  }
  // Without the topic of that job: the caller may be allowed to see this topic only.
  if (isolation.isActive)
    reasons.push({
      code: 'isolation',
      message: 'a job that may have killed a notifier is called alone; all others wait for its end',
      remedy: 'wait for its call; the error log names deaths of notifiers',
      values: {},
    });
  else if (isolation.skipped(nowMs).has(name)) {
    const waitMs = Math.ceil(isolation.pauseMs(nowMs));
    reasons.push({
      code: 'isolation_pause',
      message: `jobs with strikes of this topic were called alone; other topics go first for ${formatDuration(waitMs)}`,
      remedy: 'wait; the error log names deaths of notifiers',
      values: { waitMs },
    });
  }
  const all = view.partitions();
  const unsettled = all.reduce((sum, partition) => sum + settler.unsettled(partition), 0);
  const settling = all.filter((partition) => settler.unsettled(partition) >= budget.slots);
  if (settling.length > 0)
    reasons.push({
      code: 'settling',
      message: `${unsettled} outcomes wait for an answer of the store; ${settling.length} of ${all.length} partitions get no reserve`,
      remedy: 'check the store: dq doctor, GET /readyz',
      values: { unsettled, partitions: all.length, waiting: settling.length, ...placesIn(view, settling) },
    });
  const failing = all.filter((partition) => failures.failing.has(partition));
  if (failing.length > 0) {
    const code = [...new Set(failing.map((partition) => failures.failing.get(partition)))].join(', ');
    reasons.push({
      code: 'store_unavailable',
      message: `the last reserve failed in ${failing.length} of ${all.length} partitions of the store (${code})`,
      remedy: 'check the store: dq doctor, GET /readyz',
      values: { failing: failing.length, partitions: all.length, code, ...placesIn(view, failing) },
    });
  }
  const healing = all.filter((partition) => failures.healing.has(partition));
  if (healing.length > 0)
    reasons.push({
      code: 'healing',
      message: `${healing.length} of ${all.length} partitions of the store lost changes, and hold their jobs until cancelled ones that came back are removed`,
      remedy: 'wait; dq journal shows the restore',
      values: { healing: healing.length, partitions: all.length, ...placesIn(view, healing) },
    });
  return reasons;
}

/** To two decimals: a tenth of 3 is 0.30000000000000004. */
const rounded = (value: number): number => Math.round(value * 100) / 100;

/** What concernsPlace reads. */
const placesIn = ({ nameOf }: CapacityView, partitions: readonly Partition[]) =>
  nameOf === undefined ? {} : { places: partitions.map(nameOf).join(' ') };
