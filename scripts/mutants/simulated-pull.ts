// Mistakes in pulling, and in the end of the leases of dead notifiers, each of which must break a rule in a
// simulated world. A mistake that few worlds meet names the faults that it needs.

import { engine, type Mutants, type SimulatedMutant, script } from './mistake.ts';

const puller = 'src/intake/pull/puller.ts';
const pullCalls = 'src/intake/pull/pull-calls.ts';
const recoverer = 'src/upkeep/recoverer.ts';

export const pullMutants: Mutants<SimulatedMutant> = {
  'lease-without-mac': {
    file: 'src/core/pull-lease.ts',
    text: "return lease === null || timingSafeEqual(mac, macOf(parts, key)) ? lease : 'forged';",
    by: 'return lease;',
  },
  'lease-of-half-a-mac': {
    file: 'src/core/pull-lease.ts',
    text: 'timingSafeEqual(mac, macOf(parts, key))',
    by: 'timingSafeEqual(mac.subarray(0, 8), macOf(parts, key).subarray(0, 8))',
  },
  'forged-lease-is-answered-as-done': {
    file: pullCalls,
    text: "lease === 'forged' ? { code: 'lease_lost' }",
    by: "lease === 'forged' ? {}",
  },
  'client-ends-the-lease-of-a-notifier': {
    file: engine('finish'),
    text: 'if (row !== null && lease.isPulled === true && !tx.rows.isPulled(row)) return null;',
    by: '',
  },
  'redis-client-ends-the-lease-of-a-notifier': {
    store: 'redis',
    file: script('shared/leases'),
    text: 'if flags >= 2 and job.instance ~= 0 then return nil end',
    by: '',
  },
  'extended-lease-ends-as-expired': {
    faults: 'slowChannel',
    file: engine('finish'),
    text: 'return row !== null && lease.ifExpired === true && tx.rows.leaseUntil(row) > tx.now ? null : row;',
    by: 'return row;',
  },
  'extension-of-half-its-length': {
    file: engine('finish'),
    text: 'const until = tx.now + Math.ceil(item.leaseMs);',
    by: 'const until = tx.now + Math.ceil(item.leaseMs / 2);',
  },
  'extension-is-not-stored': {
    file: engine('job-rows'),
    text: 'return this.#sql.extend.run(until, row.n, pullOwner.instance).changes === 1;',
    by: 'return until > 0 && this.isPulled(row);',
  },
  'redis-extension-is-not-stored': {
    store: 'redis',
    file: script('extend'),
    text: "call('ZADD', P .. ':k', digits(now + lease_ms), lease_of(job))",
    by: '',
  },
  'expired-lease-of-a-client-is-a-strike': {
    file: engine('recovery'),
    text: "['owner_instance > 0', 'owner_instance = 0']",
    by: "['owner_instance >= 0', 'owner_instance < 0']",
  },
  'dead-process-ends-leases-of-clients': {
    file: engine('recovery'),
    text: ' AND owner_instance = ? ORDER BY lease_until, token`',
    by: ' AND owner_instance = ? OR state = 2 AND owner_instance = 0 ORDER BY lease_until, token`',
  },
  'redis-dead-process-ends-leases-of-clients': {
    store: 'redis',
    file: script('reserve'),
    text: "call('ZADD', P .. (instance == 0 and ':k' or ':l'), unpack(leases))",
    by: "call('ZADD', P .. ':l', unpack(leases))",
  },
  'clock-jump-shortens-leases-of-clients': {
    faults: 'wallStep',
    file: engine('recovery'),
    text: "'UPDATE job SET lease_until = lease_until + ? WHERE state = 2'",
    by: "'UPDATE job SET lease_until = lease_until + ? WHERE state = 2 AND owner_instance > 0'",
  },
  'surplus-jobs-are-kept': {
    faults: 'loseHints',
    file: puller,
    text: '      this.release(surplus);\n',
    by: '',
  },
  'jobs-without-a-client-are-not-released': {
    faults: 'loseHints',
    file: 'src/intake/pull/limits.ts',
    text: 'releaseTries: 5,',
    by: 'releaseTries: 0,',
  },
  'end-of-a-wait-wakes-nothing': {
    faults: 'loseHints',
    file: puller,
    text: '    else this.#loop.wake();\n  }\n\n  #answer',
    by: '  }\n\n  #answer',
  },
  'wait-without-an-end': {
    faults: 'loseHints',
    file: puller,
    text: 'else if (waiter.isDue && waiter.since < turn) this.#endEmpty(waiter);',
    by: '',
  },
  'puller-ignores-ready-hints': {
    faults: 'topicOff',
    file: puller,
    text: "if (hint.kind === 'ready' && this.#waiters.size > 0) this.#loop.wake();",
    by: '',
  },
  'puller-follows-hints-alone': {
    faults: 'loseHints',
    file: puller,
    text: "return isMore && this.#waiters.size > 0 ? 0 : this.#ctx.config['pollCeiling'];",
    by: 'return isMore && this.#waiters.size > 0 ? 0 : 60_000;',
  },
  'clients-get-jobs-of-a-paused-topic': {
    faults: 'topicOff',
    file: puller,
    text: "topic?.state === 'active' && topic.delivery === 'pull';",
    by: "topic?.delivery === 'pull';",
  },
  'clients-get-jobs-that-notifiers-call': {
    faults: 'topicEdit',
    file: puller,
    text: "topic?.state === 'active' && topic.delivery === 'pull';",
    by: "topic?.state === 'active';",
  },
  'notifiers-call-pulled-jobs': {
    file: 'src/core/topic/topic.ts',
    text: "return state === 'active' && delivery !== 'pull';",
    by: "return state === 'active' && delivery !== 'mq';",
  },
  'waiting-client-is-left-in-a-drain': {
    faults: 'reload',
    file: puller,
    text: 'for (const waiter of this.#waiters) this.#answer(waiter);',
    by: '',
  },
  'lease-of-the-topic-in-place-of-that-of-the-request': {
    file: puller,
    text: 'if (leaseMs !== null) topics.set(name, { room: Math.min(room, max), leaseMs });',
    by: 'if (leaseMs !== null) topics.set(name, { room: Math.min(room, max), leaseMs: topic.leaseMs });',
  },
  'one-attempt-too-many-after-a-nack': {
    file: 'src/intake/pull/pulled-leases.ts',
    text: 'const settlement = settle(own, failures, verdict, unitMs, random);',
    by: 'const settlement = settle(own, Math.max(0, failures - 1), verdict, unitMs, random);',
  },
  'one-attempt-too-many-after-an-expiry': {
    file: recoverer,
    text: 'settle(own, pull.failures, verdict, unitMs, random)',
    by: 'settle(own, Math.max(0, pull.failures - 1), verdict, unitMs, random)',
  },
  'first-expiry-counts-no-attempt': {
    file: recoverer,
    text: 'if (topic === undefined) releases.push(lease);',
    by: 'if (topic === undefined || pull.failures === 0) releases.push(lease);',
  },
  'attempt-of-a-pulled-job-is-its-failures': {
    file: pullCalls,
    text: 'attempt: failures + 1,',
    by: 'attempt: failures,',
  },
  'nack-ignores-its-delay': {
    file: 'src/intake/pull/pulled-leases.ts',
    text: 'delayMs === null || isSnooze ? null',
    by: 'delayMs !== -1 ? null',
  },
  'dead-notifier-is-not-reported': {
    faults: 'kill',
    file: 'src/upkeep/upkeep.ts',
    text: 'this.#recoverer.ownerDied(message.incarnation);',
    by: '',
  },
  'living-notifiers-are-not-compared': {
    faults: 'masterKill,restart',
    file: recoverer,
    text: 'if (living !== null && ageMs <= upkeepLimits.livingFreshMs) return living;',
    by: '',
  },
  'master-answers-no-who-lives': {
    faults: 'masterKill,restart',
    file: 'src/master/workers/worker-relay.ts',
    text: "from.send({ kind: 'living', ...this.#living() });",
    by: '',
  },
  'redis-dead-notifier-keeps-its-leases': {
    store: 'redis',
    faults: 'kill',
    file: script('recover-owners'),
    text: "if ARGV[6] == 'dead' then return named[incarnation] or false end",
    by: "if ARGV[6] == 'dead' then return false end",
  },
};
