// Mistakes in the scripts of Redis and its client, each of which must break a rule in a simulated world on
// Redis. A mistake that few worlds meet names the faults that it needs.

import type { SimulatedMutant } from './mutants.ts';
import { moveMutants } from './simulated-moves.ts';
import { shardMutants } from './simulated-shards.ts';
import { standbyMutants } from './simulated-standby.ts';
import { redisVerdictMutants } from './simulated-verdicts.ts';

const script = (name: string) => `src/store/redis/scripts/lua/${name}.lua`;
const client = (name: string) => `src/store/redis/client/${name}.ts`;

const edits: readonly Omit<SimulatedMutant, 'store'>[] = [
  {
    name: 'redis-outcome-outside-the-fence',
    edit: {
      file: script('shared/leases'),
      text: "    return '\\0'\n  end)\nend",
      by: "    if push and push(i) then return '\\0' end\n    return '\\0'\n  end)\nend",
    },
  },
  {
    name: 'redis-bury-without-outcome',
    edit: { file: script('bury'), text: 'end, false, false, push_outcome)', by: 'end, false, false)' },
  },
  {
    name: 'redis-ack-without-fence',
    edit: {
      file: script('shared/leases'),
      text: 'if job.state ~= 2 or job.version ~= version or job.token ~= token then return nil end',
      by: 'if job.state ~= 2 then return nil end',
    },
  },
  {
    name: 'redis-numbers-behind-the-clock-are-the-next-ones',
    faults: 'redisFailover,wallStep',
    edit: {
      file: script('shared/numbers'),
      text: 'elseif seq - us < behind_max then',
      by: 'elseif true then',
    },
  },
  {
    name: 'redis-lease-of-half-its-length',
    edit: {
      file: script('reserve'),
      text: 'ends[lease_ms] = digits(now + lease_ms)',
      by: 'ends[lease_ms] = digits(now + math.floor(lease_ms / 2))',
    },
  },
  {
    name: 'redis-promote-1-s-early',
    edit: {
      file: script('promote'),
      text: 'local max = tonumber(ARGV[4])',
      by: 'local max = tonumber(ARGV[4])\nnow = now + 1000',
    },
  },
  {
    name: 'redis-window-is-over-after-half-of-it',
    faults: 'kill',
    edit: {
      file: script('push'),
      text: 'math.abs(now - ended_at) < window then',
      by: 'math.abs(now - ended_at) < window / 2 then',
    },
  },
  {
    name: 'redis-living-notifiers-count-as-dead',
    edit: {
      file: script('recover-owners'),
      text: 'return not named[incarnation] and incarnation < youngest',
      by: 'return incarnation < youngest',
    },
  },
  {
    name: 'redis-lost-push-sent-again',
    edit: {
      file: 'src/store/redis/calls/calls.ts',
      text: '    return batch.map(() => error.failure);',
      by: "    if (call.script === 'push' && error.failure.kind === 'unknown')\n      return answersOf(shards, partition, batch, call);\n    return batch.map(() => error.failure);",
    },
  },
  {
    name: 'redis-lost-call-counts-as-not-stored',
    edit: {
      file: client('failures'),
      text: "if (reply === null) return { kind: 'unknown', code: 'redis_no_answer' };",
      by: "if (reply === null) return { kind: 'not_stored', code: 'redis_no_answer' };",
    },
  },
  {
    name: 'redis-late-call-counts-as-not-stored',
    faults: 'redisPause,lateReply',
    edit: {
      file: 'src/store/redis/shard/shard.ts',
      text: "reject(new StoreError({ kind: 'unknown', code: 'redis_no_answer' }));",
      by: "reject(new StoreError({ kind: 'not_stored', code: 'redis_no_answer' }));",
    },
  },
  {
    name: 'redis-numbers-follow-the-clock-back',
    edit: {
      file: script('shared/numbers'),
      text: 'if seq < us then seq = us',
      by: 'if seq < us or seq - us > 1000 then seq = us',
    },
  },
  {
    name: 'redis-body-goes-with-the-reserve',
    edit: {
      file: script('reserve'),
      text: "bodies[#bodies + 1] = call('HGET', P .. ':b', fields[i])",
      by: "bodies[#bodies + 1] = call('HGET', P .. ':b', fields[i])\n  call('HDEL', P .. ':b', fields[i])",
    },
  },
  {
    name: 'redis-push-answered-and-not-stored',
    edit: {
      file: script('push'),
      text: 'write_gathered()\nfinish()',
      by: 'if gathered ~= 1 then write_gathered() end\nfinish()',
    },
  },
  {
    name: 'redis-verb-on-another-version',
    edit: {
      file: script('shared/jobs'),
      text: "return version ~= '' and tonumber(version) ~= job.version end",
      by: 'return version == nil and job == nil end',
    },
  },
  {
    name: 'redis-retry-counts-twice',
    edit: {
      file: script('retry'),
      text: 'job.failures = job.failures + 1',
      by: 'job.failures = job.failures + 2',
    },
  },
  {
    name: 'redis-death-without-alert',
    edit: { file: script('shared/moves'), text: '  owe_alert(job, attempt)\n', by: '' },
  },
  {
    name: 'redis-recovery-without-strike',
    edit: {
      file: script('shared/strikes'),
      text: 'job.strikes = job.strikes + 1',
      by: 'job.strikes = job.strikes',
    },
  },
  {
    name: 'redis-poison-gets-a-strike-more',
    faults: 'poison',
    edit: {
      file: script('shared/strikes'),
      text: 'if job.strikes < limits.strikesPoison then',
      by: 'if job.strikes <= limits.strikesPoison then',
    },
  },
  {
    name: 'redis-no-hold-after-an-outage',
    faults: 'redisDown',
    edit: {
      file: script('recover'),
      text: 'if now < held then return { 0, 0, {}, {} } end',
      by: '',
    },
  },
  {
    name: 'redis-held-jobs-count-as-unheld',
    edit: {
      file: script('release-unheld'),
      text: 'if incarnation ~= mine or held[token] then return false end',
      by: 'if incarnation ~= mine then return false end',
    },
  },
  {
    name: 'redis-late-search-releases-later-leases',
    faults: 'slowChannel,lateReply',
    edit: {
      file: 'src/notifier/reserver.ts',
      text: 'owner, settler.tokens(), upTo)',
      by: 'owner, settler.tokens(), Number.MAX_SAFE_INTEGER)',
    },
  },
  {
    name: 'redis-requeue-keeps-failures',
    edit: {
      file: script('shared/moves'),
      text: 'draw(), now, 0, 0',
      by: 'draw(), now, job.failures, job.strikes',
    },
  },
  {
    name: 'redis-instance-recovers-leases-of-another',
    edit: {
      file: script('shared/owners'),
      text: 'its == instance and matches',
      by: 'matches',
    },
  },
  {
    name: 'redis-lease-of-another-instance',
    edit: {
      file: 'src/compose/compose.ts',
      text: 'owner: { instance: init.instance,',
      by: 'owner: { instance: 7,',
    },
  },
  {
    name: 'redis-expired-leases-recovered-each-half-minute',
    faults: 'instanceDown,kill',
    edit: {
      file: 'src/upkeep/limits.ts',
      text: 'recoverEveryMs: 1_000,',
      by: 'recoverEveryMs: 30_000,',
    },
  },
  {
    name: 'redis-hold-without-an-outage',
    faults: 'instanceDown,kill',
    edit: {
      file: script('recover'),
      text: 'since > away_ms',
      by: 'since >= 0',
    },
  },
  {
    name: 'shards-home-of-each-call',
    shards: 2,
    edit: {
      file: 'src/core/shard-list.ts',
      text: 'const home = highest(hash, activeOf(list));',
      by: 'let home = highest(hash, activeOf(list));\n  let n = (globalThis as any).calls ?? 0;\n  (globalThis as any).calls = n += 1;\n  home = highest(hash ^ n, activeOf(list));',
    },
  },
  {
    name: 'shards-unknown-push-goes-elsewhere',
    shards: 2,
    faults: 'redisKill,redisPause,lateReply',
    edit: {
      file: 'src/store/redis/calls/jobs.ts',
      text: "outcomes[at]?.kind === 'not_stored' ? shards",
      by: "outcomes[at]?.kind !== 'stored' ? shards",
    },
  },
  {
    name: 'shards-chosen-id-goes-elsewhere',
    shards: 2,
    faults: 'redisDown',
    edit: {
      file: 'src/store/redis/shard/redis-store.ts',
      text: 'const { anotherId } = job;',
      by: "const { anotherId = () => 'x' + Math.random() } = job;",
    },
  },
  {
    name: 'redis-dead-letters-expire-at-once',
    edit: {
      file: script('dead-expire'),
      text: 'digits(now - tonumber(ARGV[5]))',
      by: 'digits(now)',
    },
  },
  {
    name: 'redis-nearly-full-forgets-ends-of-ticks',
    faults: 'redisRejects',
    works: 'schedules',
    edit: { file: script('history-forget'), text: 'or not is_tick(member:sub(11)) then', by: 'or true then' },
  },
  {
    name: 'redis-nearly-full-keeps-no-ends-of-ticks',
    faults: 'redisRejects',
    works: 'schedules',
    edit: {
      file: script('shared/ends'),
      text: 'if keeps_all or is_tick(job.tid) then',
      by: 'if keeps_all then',
    },
  },
];

export const simulatedRedisMutants: readonly SimulatedMutant[] = [
  ...edits.map((mutant) => ({ ...mutant, store: 'redis' as const })),
  ...moveMutants,
  ...shardMutants,
  ...standbyMutants,
  ...redisVerdictMutants,
];
