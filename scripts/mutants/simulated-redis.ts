// Mistakes in the scripts of Redis and its client, in the move of a jobs.db, in changes of the shard list and
// in the lead of instances, each of which must break a rule in a simulated world on Redis. A mistake that few
// worlds meet names the faults that it needs.

import { type Mutants, type SimulatedMutant, script, sharing } from './mistake.ts';

const client = (name: string) => `src/store/redis/client/${name}.ts`;
const mover = 'src/upkeep/mover.ts';
const list = 'src/core/shard-list.ts';
const changes = 'src/use-cases/change-shards.ts';
const leadership = 'src/notifier/leadership.ts';
const row = 'src/registry/sql/tables/registry-leader.ts';

export const redisMutants: Mutants<SimulatedMutant> = sharing(
  { store: 'redis' },
  {
    'redis-outcome-outside-the-fence': {
      file: script('shared/leases'),
      text: "    return '\\0'\n  end)\nend",
      by: "    if push and push(i) then return '\\0' end\n    return '\\0'\n  end)\nend",
    },
    'redis-bury-without-outcome': {
      file: script('bury'),
      text: 'end, false, false, push_outcome)',
      by: 'end, false, false)',
    },
    'redis-ack-without-fence': {
      file: script('shared/leases'),
      text: 'if job.state ~= 2 or job.version ~= version or job.token ~= token then return nil end',
      by: 'if job.state ~= 2 then return nil end',
    },
    'redis-numbers-behind-the-clock-are-the-next-ones': {
      faults: 'redisFailover,wallStep',
      file: script('shared/numbers'),
      text: 'elseif seq - us < behind_max then',
      by: 'elseif true then',
    },
    'redis-lease-of-half-its-length': {
      file: script('reserve'),
      text: 'ends[lease_ms] = digits(now + lease_ms)',
      by: 'ends[lease_ms] = digits(now + math.floor(lease_ms / 2))',
    },
    'redis-promote-1-s-early': {
      file: script('promote'),
      text: 'local max = tonumber(ARGV[4])',
      by: 'local max = tonumber(ARGV[4])\nnow = now + 1000',
    },
    'redis-window-is-over-after-half-of-it': {
      faults: 'kill',
      file: script('push'),
      text: 'math.abs(now - ended_at) < window then',
      by: 'math.abs(now - ended_at) < window / 2 then',
    },
    'redis-living-notifiers-count-as-dead': {
      file: script('recover-owners'),
      text: 'return not named[incarnation] and incarnation < youngest',
      by: 'return incarnation < youngest',
    },
    'redis-lost-push-sent-again': {
      file: 'src/store/redis/calls/calls.ts',
      text: '    return batch.map(() => error.failure);',
      by: "    if (call.script === 'push' && error.failure.kind === 'unknown')\n      return answersOf(shards, partition, batch, call);\n    return batch.map(() => error.failure);",
    },
    'redis-lost-call-counts-as-not-stored': {
      file: client('failures'),
      text: "if (reply === null) return { kind: 'unknown', code: 'redis_no_answer' };",
      by: "if (reply === null) return { kind: 'not_stored', code: 'redis_no_answer' };",
    },
    'redis-late-call-counts-as-not-stored': {
      faults: 'redisPause,lateReply',
      file: 'src/store/redis/shard/shard.ts',
      text: "reject(new StoreError({ kind: 'unknown', code: 'redis_no_answer' }));",
      by: "reject(new StoreError({ kind: 'not_stored', code: 'redis_no_answer' }));",
    },
    'redis-numbers-follow-the-clock-back': {
      file: script('shared/numbers'),
      text: 'if seq < us then seq = us',
      by: 'if seq < us or seq - us > 1000 then seq = us',
    },
    'redis-body-goes-with-the-reserve': {
      file: script('reserve'),
      text: "bodies[#bodies + 1] = call('HGET', P .. ':b', fields[i])",
      by: "bodies[#bodies + 1] = call('HGET', P .. ':b', fields[i])\n  call('HDEL', P .. ':b', fields[i])",
    },
    'redis-push-answered-and-not-stored': {
      file: script('push'),
      text: 'write_gathered()\nfinish()',
      by: 'if gathered ~= 1 then write_gathered() end\nfinish()',
    },
    'redis-verb-on-another-version': {
      file: script('shared/jobs'),
      text: "return version ~= '' and tonumber(version) ~= job.version end",
      by: 'return version == nil and job == nil end',
    },
    'redis-retry-counts-twice': {
      file: script('retry'),
      text: 'job.failures = job.failures + 1',
      by: 'job.failures = job.failures + 2',
    },
    'redis-death-without-alert': {
      file: script('shared/moves'),
      text: '  owe_alert(job, attempt)\n',
      by: '',
    },
    'redis-recovery-without-strike': {
      file: script('shared/strikes'),
      text: 'job.strikes = job.strikes + 1',
      by: 'job.strikes = job.strikes',
    },
    'redis-poison-gets-a-strike-more': {
      faults: 'poison',
      file: script('shared/strikes'),
      text: 'if job.strikes < limits.strikesPoison then',
      by: 'if job.strikes <= limits.strikesPoison then',
    },
    'redis-no-hold-after-an-outage': {
      faults: 'redisDown',
      file: script('recover'),
      text: 'if now < held then return { 0, 0, {}, {} } end',
      by: '',
    },
    'redis-held-jobs-count-as-unheld': {
      file: script('release-unheld'),
      text: 'if incarnation ~= mine or held[token] then return false end',
      by: 'if incarnation ~= mine then return false end',
    },
    'redis-late-search-releases-later-leases': {
      faults: 'slowChannel,lateReply',
      file: 'src/notifier/reserver.ts',
      text: 'owner, settler.tokens(), upTo)',
      by: 'owner, settler.tokens(), Number.MAX_SAFE_INTEGER)',
    },
    'redis-requeue-keeps-failures': {
      file: script('shared/moves'),
      text: 'draw(), now, 0, 0',
      by: 'draw(), now, job.failures, job.strikes',
    },
    'redis-instance-recovers-leases-of-another': {
      file: script('shared/owners'),
      text: 'its == instance and matches',
      by: 'matches',
    },
    'redis-lease-of-another-instance': {
      file: 'src/compose/compose.ts',
      text: 'owner: { instance: init.instance,',
      by: 'owner: { instance: 7,',
    },
    'redis-expired-leases-recovered-each-half-minute': {
      faults: 'instanceDown,kill',
      file: 'src/upkeep/limits.ts',
      text: 'recoverEveryMs: 1_000,',
      by: 'recoverEveryMs: 30_000,',
    },
    'redis-hold-without-an-outage': {
      faults: 'instanceDown,kill',
      file: script('recover'),
      text: 'since > away_ms',
      by: 'since >= 0',
    },
    'shards-home-of-each-call': {
      shards: 2,
      file: 'src/core/shard-list.ts',
      text: 'const home = highest(hash, activeOf(list));',
      by: 'let home = highest(hash, activeOf(list));\n  let n = (globalThis as any).calls ?? 0;\n  (globalThis as any).calls = n += 1;\n  home = highest(hash ^ n, activeOf(list));',
    },
    'shards-unknown-push-goes-elsewhere': {
      shards: 2,
      faults: 'redisKill,redisPause,lateReply',
      file: 'src/store/redis/calls/jobs.ts',
      text: "outcomes[at]?.kind === 'not_stored' ? shards",
      by: "outcomes[at]?.kind !== 'stored' ? shards",
    },
    'shards-chosen-id-goes-elsewhere': {
      shards: 2,
      faults: 'redisDown',
      file: 'src/store/redis/shard/redis-store.ts',
      text: 'const { anotherId } = job;',
      by: "const { anotherId = () => 'x' + Math.random() } = job;",
    },
    'redis-dead-letters-expire-at-once': {
      file: script('dead-expire'),
      text: 'digits(now - tonumber(ARGV[5]))',
      by: 'digits(now)',
    },
    'redis-nearly-full-forgets-ends-of-ticks': {
      faults: 'redisRejects',
      works: 'schedules',
      file: script('history-forget'),
      text: 'or not is_tick(member:sub(11)) then',
      by: 'or true then',
    },
    'redis-nearly-full-keeps-no-ends-of-ticks': {
      faults: 'redisRejects',
      works: 'schedules',
      file: script('shared/ends'),
      text: 'if keeps_all or is_tick(job.tid) then',
      by: 'if keeps_all then',
    },
    'redis-a-snooze-counts-an-attempt': {
      file: script('retry'),
      text: 'if #attempt > 0 then job.failures',
      by: 'if attempt then job.failures',
    },
    'redis-the-number-of-snoozes-is-not-stored': {
      file: script('retry'),
      text: '  if #block > 0 then set_extension(job, block) end\n',
      by: '',
    },
    // test/sim/redis/left-jobs.ts. Those that need a store without a history are in mutants.ts.
    ...sharing(
      { works: 'moves', shards: 1 },
      {
        'move-forgets-before-the-put': {
          faults: 'kill,cut,redisKill',
          file: mover,
          text: 'const outcomes = await this.#leaving.arrivals.put(move, jobs);',
          by: 'await this.#leaving.calls.forget(jobs);\n    const outcomes = await this.#leaving.arrivals.put(move, jobs);',
        },
        'change-without-its-put': {
          faults: 'kill,cut,redisKill',
          file: 'src/store/moving-store.ts',
          text: 'const arrived = jobs.length === 0 ? [] : await this.#put(move, jobs);',
          by: "const arrived = jobs.map(() => 'target' as const);",
        },
        'end-in-jobs-db-has-no-window': {
          faults: 'kill',
          file: 'src/store/moving-store.ts',
          text: 'if (ended === null || !isInWindow',
          by: 'if (ended !== null || !isInWindow',
        },
        'move-forgets-what-redis-lost': {
          faults: 'redisForgets,redisFailover,redisKill',
          file: mover,
          text: 'if (losses !== this.#losses) this.#beginAgain(losses);',
          by: '',
        },
        'move-opened-without-the-ends-of-the-journal': {
          faults: 'mysqlTrouble,redisEmptied,kill',
          file: mover,
          text: "if (known === 'open' || isFirst || this.#ctx.journal === undefined) return 'left';",
          by: "if (known !== 'healing') return 'left';",
        },
        'lease-of-a-pull-client-lost-by-a-move': {
          faults: 'reload',
          file: 'src/store/moving-store.ts',
          text: 'if (lost.length === 0) return outcomes;',
          by: 'if (lost.length >= 0) return outcomes;',
        },
        'move-forgets-without-delay': {
          faults: 'redisFailover',
          file: mover,
          text: 'if (first === undefined || askedAt - first.at < upkeepLimits.moveForgetMs) return;',
          by: 'if (first === undefined) return;',
        },
        'ended-job-of-a-move-without-entry': {
          faults: 'kill,cut',
          file: 'src/store/redis/scripts/lua/restore.lua',
          text: 'if ended_version(f) >= row.version then',
          by: 'if ended_version(f) > row.version then',
        },
      },
    ),
    // test/sim/redis/shard-changes.ts
    ...sharing(
      { works: 'shards' },
      {
        'shard-with-jobs-is-removed': {
          file: changes,
          text: 'if (jobs + alerts > 0)',
          by: 'if (jobs + alerts > 1_000)',
        },
        'last-active-shard-drains': {
          file: changes,
          text: 'if (others.length === 0)',
          by: 'if (others.length < 0)',
        },
        'draining-shard-gets-new-ids': {
          faults: 'loseHints',
          file: list,
          text: 'const home = highest(hash, activeOf(list));',
          by: 'const home = highest(hash, list.shards.map(({ id }) => id));',
        },
        'changed-list-keeps-its-number': {
          file: list,
          text: 'const number = Math.max(list.number, reports.number) + 1;',
          by: 'const number = Math.max(list.number, reports.number);',
        },
        'earlier-list-is-forgotten': {
          file: list,
          text: 'earlier: [...list.earlier, past, ...forgotten] };',
          by: 'earlier: [...list.earlier, ...forgotten].filter(() => past === null) };',
        },
        'shard-is-settled-with-jobs-of-an-earlier-list': {
          file: changes,
          text: 'if (since >= number || !(await isCleared(servers, id))) continue;',
          by: 'if (since >= number) continue;',
        },
        'change-of-the-list-is-not-announced': {
          faults: 'pause,registryAway',
          file: changes,
          text: 'await Promise.allSettled(shards.servers.list.shards.map(({ id }) => shards.servers.announce(id)));',
          by: '',
        },
        'verb-looks-on-one-shard-alone': {
          file: 'src/store/redis/calls/jobs.ts',
          text: "const isElsewhere = ({ kind }: { readonly kind: string }) => kind === 'absent';",
          by: "const isElsewhere = ({ kind }: { readonly kind: string }) => kind === 'none';",
        },
      },
    ),
    // The option `standby` (test/sim/lead.ts).
    ...sharing(
      { faults: 'standby' },
      {
        // One instance calls jobs.
        'standby-each-instance-calls': {
          file: leadership,
          text: 'this.#options.row === undefined || this.#hasRow || this.#isAlone',
          by: 'this.#options.row !== null || this.#hasRow || this.#isAlone',
        },
        'standby-lead-lasts-until-the-next-answer': {
          faults: 'standby,registryAway,freeze',
          file: leadership,
          text: 'this.#options.now() < this.#leadsUntil && wallNow() < this.#leadsUntilDate',
          by: 'this.#leadsUntil > 0 && wallNow() > 0',
        },
        'standby-failed-attempt-counts-twice': {
          faults: 'standby,registryAway',
          file: leadership,
          text: 'Math.min(now - this.#countedAt, longest)',
          by: 'Math.min(now - this.#countedAt + notifierLimits.leaderEveryMs, longest)',
        },
        'standby-leaving-process-frees-the-row-of-its-siblings': {
          faults: 'standby,reload',
          file: row,
          text: 'AND NOT EXISTS (SELECT 1 FROM leader_process WHERE instance = ',
          by: 'AND NOT EXISTS (SELECT 1 FROM leader_process WHERE -1 = ',
        },
        // Another instance leads soon.
        'standby-expired-row-stays': {
          faults: 'standby,instanceDown',
          file: row,
          text: 'before.leftMs > 0 && before.leftMs <= leaseMs',
          by: 'before.instance > 0 && before.leftMs <= leaseMs',
        },
        // A reload that keeps standby does not change the leader.
        'standby-next-notifier-asks-after-the-reload': {
          faults: 'standby,reload',
          file: 'src/notifier/notifier.ts',
          text: 'if (!this.#ctx.config.noDeliveries) await this.#leadership.start();\n    if (!this.#isStandby) await this.takeOver();',
          by: 'if (!this.#isStandby) await this.#leadership.start();\n    if (!this.#isStandby) await this.takeOver();',
        },
        // A leader gives up after its last call.
        'standby-gives-up-before-its-calls-end': {
          faults: 'standby,receiverDown',
          file: 'src/notifier/notifier.ts',
          text: '    await stopped;\n',
          by: '    await stopped;\n    await this.#leadership.giveUp();\n',
        },
      },
    ),
  },
);
