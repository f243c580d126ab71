// Mistakes in pulling, and in the end of the leases of dead notifiers, each of which must break a rule in a
// simulated world. A mistake that few worlds meet names the faults that it needs.

import type { SimulatedMutant } from './mutants.ts';

const engine = (name: string) => `src/store/sqlite/engine/${name}.ts`;
const script = (name: string) => `src/store/redis/scripts/lua/${name}.lua`;
const puller = 'src/intake/pull/puller.ts';
const pullCalls = 'src/intake/pull/pull-calls.ts';
const expiredPulls = 'src/upkeep/expired-pulls.ts';

export const pullMutants: readonly SimulatedMutant[] = [
  {
    name: 'lease-without-mac',
    edit: {
      file: 'src/core/pull-lease.ts',
      text: "return lease === null || timingSafeEqual(mac, macOf(parts, key)) ? lease : 'forged';",
      by: 'return lease;',
    },
  },
  {
    name: 'lease-of-half-a-mac',
    edit: {
      file: 'src/core/pull-lease.ts',
      text: 'timingSafeEqual(mac, macOf(parts, key))',
      by: 'timingSafeEqual(mac.subarray(0, 8), macOf(parts, key).subarray(0, 8))',
    },
  },
  {
    name: 'forged-lease-is-answered-as-done',
    edit: {
      file: pullCalls,
      text: "lease === 'forged' ? { code: 'lease_lost' }",
      by: "lease === 'forged' ? {}",
    },
  },
  {
    name: 'client-ends-the-lease-of-a-notifier',
    edit: {
      file: engine('finish'),
      text: 'if (row !== null && lease.isPulled === true && !tx.rows.isPulled(row)) return null;',
      by: '',
    },
  },
  {
    name: 'redis-client-ends-the-lease-of-a-notifier',
    store: 'redis',
    edit: {
      file: script('shared/leases'),
      text: 'if flags >= 2 and job.instance ~= 0 then return nil end',
      by: '',
    },
  },
  {
    name: 'redis-client-extends-the-lease-of-a-notifier',
    store: 'redis',
    edit: { file: script('extend'), text: 'if not job or job.instance ~= 0 then', by: 'if not job then' },
    livesBecause: 'the lease of a client says that it is one, and shared/leases.lua compares that before',
  },
  {
    name: 'extended-lease-ends-as-expired',
    faults: 'slowChannel',
    edit: {
      file: engine('finish'),
      text: 'return row !== null && lease.ifExpired === true && tx.rows.leaseUntil(row) > tx.now ? null : row;',
      by: 'return row;',
    },
  },
  {
    name: 'extension-of-half-its-length',
    edit: {
      file: engine('finish'),
      text: 'const until = tx.now + Math.ceil(item.leaseMs);',
      by: 'const until = tx.now + Math.ceil(item.leaseMs / 2);',
    },
  },
  {
    name: 'extension-is-not-stored',
    edit: {
      file: engine('job-rows'),
      text: 'return this.#extend.run(until, row.n, pullOwner.instance).changes === 1;',
      by: 'return until > 0 && this.isPulled(row);',
    },
  },
  {
    name: 'redis-extension-is-not-stored',
    store: 'redis',
    edit: {
      file: script('extend'),
      text: "call('ZADD', P .. ':k', digits(now + lease_ms), lease_of(job))",
      by: '',
    },
  },
  {
    name: 'expired-lease-of-a-client-is-a-strike',
    edit: {
      file: engine('recovery'),
      text: "['owner_instance > 0', 'owner_instance = 0']",
      by: "['owner_instance >= 0', 'owner_instance < 0']",
    },
  },
  {
    name: 'dead-process-ends-leases-of-clients',
    edit: {
      file: engine('recovery'),
      text: ' AND owner_instance = ? ORDER BY lease_until, token`',
      by: ' AND owner_instance = ? OR state = 2 AND owner_instance = 0 ORDER BY lease_until, token`',
    },
  },
  {
    name: 'redis-dead-process-ends-leases-of-clients',
    store: 'redis',
    edit: {
      file: script('reserve'),
      text: "call('ZADD', P .. (instance == 0 and ':k' or ':l'), unpack(leases))",
      by: "call('ZADD', P .. ':l', unpack(leases))",
    },
  },
  {
    name: 'clock-jump-shortens-leases-of-clients',
    faults: 'wallStep',
    edit: {
      file: engine('recovery'),
      text: "'UPDATE job SET lease_until = lease_until + ? WHERE state = 2'",
      by: "'UPDATE job SET lease_until = lease_until + ? WHERE state = 2 AND owner_instance > 0'",
    },
  },
  {
    name: 'surplus-jobs-are-kept',
    faults: 'loseHints',
    edit: { file: puller, text: '      this.release(surplus);\n', by: '' },
  },
  {
    name: 'jobs-without-a-client-are-not-released',
    faults: 'loseHints',
    edit: { file: 'src/intake/pull/limits.ts', text: 'releaseTries: 5,', by: 'releaseTries: 0,' },
  },
  {
    name: 'end-of-a-wait-wakes-nothing',
    faults: 'loseHints',
    edit: { file: puller, text: '    else this.#loop.wake();\n  }\n\n  #answer', by: '  }\n\n  #answer' },
  },
  {
    name: 'wait-without-an-end',
    faults: 'loseHints',
    edit: {
      file: puller,
      text: 'else if (waiter.isDue && waiter.since < turn) this.#endEmpty(waiter);',
      by: '',
    },
  },
  {
    name: 'puller-ignores-ready-hints',
    faults: 'topicOff',
    edit: {
      file: puller,
      text: "if (hint.kind === 'ready' && this.#waiters.size > 0) this.#loop.wake();",
      by: '',
    },
  },
  {
    name: 'puller-follows-hints-alone',
    faults: 'loseHints',
    edit: {
      file: puller,
      text: "return isMore && this.#waiters.size > 0 ? 0 : this.#ctx.config['pollCeiling'];",
      by: 'return isMore && this.#waiters.size > 0 ? 0 : 60_000;',
    },
  },
  {
    name: 'clients-get-jobs-of-a-paused-topic',
    faults: 'topicOff',
    edit: {
      file: puller,
      text: "topic?.state === 'active' && topic.delivery === 'pull';",
      by: "topic?.delivery === 'pull';",
    },
  },
  {
    name: 'clients-get-jobs-that-notifiers-call',
    faults: 'topicEdit',
    edit: {
      file: puller,
      text: "topic?.state === 'active' && topic.delivery === 'pull';",
      by: "topic?.state === 'active';",
    },
  },
  {
    name: 'notifiers-call-pulled-jobs',
    edit: {
      file: 'src/core/topic/topic.ts',
      text: "return state === 'active' && delivery !== 'pull';",
      by: "return state === 'active' && delivery !== 'mq';",
    },
  },
  {
    name: 'waiting-client-is-left-in-a-drain',
    faults: 'reload',
    edit: {
      file: puller,
      text: 'for (const waiter of this.#waiters) this.#answer(waiter);',
      by: '',
    },
  },
  {
    name: 'lease-of-the-topic-in-place-of-that-of-the-request',
    edit: {
      file: puller,
      text: 'if (leaseMs !== null) topics.set(name, { room: Math.min(room, max), leaseMs });',
      by: 'if (leaseMs !== null) topics.set(name, { room: Math.min(room, max), leaseMs: topic.leaseMs });',
    },
  },
  {
    name: 'one-attempt-too-many-after-a-nack',
    edit: {
      file: 'src/intake/pull/pulled-leases.ts',
      text: 'const settlement = settle(own, failures, verdict, unitMs, random);',
      by: 'const settlement = settle(own, Math.max(0, failures - 1), verdict, unitMs, random);',
    },
  },
  {
    name: 'one-attempt-too-many-after-an-expiry',
    edit: {
      file: expiredPulls,
      text: 'settle(own, pull.failures, verdict, unitMs, random)',
      by: 'settle(own, Math.max(0, pull.failures - 1), verdict, unitMs, random)',
    },
  },
  {
    name: 'first-expiry-counts-no-attempt',
    edit: {
      file: expiredPulls,
      text: 'if (topic === undefined) releases.push(lease);',
      by: 'if (topic === undefined || pull.failures === 0) releases.push(lease);',
    },
  },
  {
    name: 'attempt-of-a-pulled-job-is-its-failures',
    edit: {
      file: pullCalls,
      text: 'attempt: failures + 1,',
      by: 'attempt: failures,',
    },
  },
  {
    name: 'nack-ignores-its-delay',
    edit: {
      file: 'src/intake/pull/pulled-leases.ts',
      text: 'delayMs === null || isSnooze ? null',
      by: 'delayMs !== -1 ? null',
    },
  },
  {
    name: 'dead-notifier-is-not-reported',
    faults: 'kill',
    edit: { file: 'src/upkeep/upkeep.ts', text: 'this.#recoverer.ownerDied(message.incarnation);', by: '' },
  },
  {
    name: 'living-notifiers-are-not-compared',
    faults: 'masterKill,restart',
    edit: {
      file: 'src/upkeep/recoverer.ts',
      text: 'if (living !== null && ageMs <= upkeepLimits.livingFreshMs) return living;',
      by: '',
    },
  },
  {
    name: 'master-answers-no-who-lives',
    faults: 'masterKill,restart',
    edit: {
      file: 'src/master/workers/worker-relay.ts',
      text: "from.send({ kind: 'living', ...this.#living() });",
      by: '',
    },
  },
  {
    name: 'redis-dead-notifier-keeps-its-leases',
    store: 'redis',
    faults: 'kill',
    edit: {
      file: script('recover-owners'),
      text: "if ARGV[6] == 'dead' then return named[incarnation] or false end",
      by: "if ARGV[6] == 'dead' then return false end",
    },
  },
];
