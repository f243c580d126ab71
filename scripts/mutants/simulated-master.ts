// Mistakes in the master and in the life of a worker, each of which must break a rule in a simulated world
// (test/sim/master-rules.ts). Every rule has at least two.
// Invariant (test/unit/mutants.test.ts): each text occurs once in its file.

import type { SimulatedMutant } from './mutants.ts';

const workers = (name: string) => `src/master/workers/${name}.ts`;
const fleet = workers('fleet');
const reload = 'src/master/reload.ts';
const life = 'src/process/worker-life.ts';
const reloads = 'reload,reloads,badReload';

export const masterMutants: readonly SimulatedMutant[] = [
  // Only one dq-store and one dq-upkeep work.
  {
    name: 'take-over-beside-the-old-one',
    edit: { file: fleet, text: '      if (this.#hasOlder(role)) continue;\n', by: '' },
  },
  {
    name: 'store-on-trial-opens-its-file',
    edit: {
      file: fleet,
      text: 'return isOnTrial || this.#hasOlder(slot.role);',
      by: 'return this.#hasOlder(slot.role);',
    },
  },
  {
    name: 'restarted-store-waits-for-no-older-one',
    faults: 'reload,reloadDeath,storeKill',
    edit: {
      file: fleet,
      text: 'return isOnTrial || this.#hasOlder(slot.role);',
      by: 'return isOnTrial;',
    },
  },
  {
    name: 'take-over-is-not-awaited',
    edit: { file: life, text: '    await this.#takeOverAllowed;\n', by: '' },
  },
  // A notifier on trial calls nothing.
  {
    name: 'notifier-on-trial-works',
    faults: reloads,
    edit: {
      file: fleet,
      text: "if (slot.role === 'notifier') return isOnTrial;",
      by: "if (slot.role === 'notifier') return false;",
    },
  },
  {
    name: 'notifier-is-never-standby',
    faults: reloads,
    edit: {
      file: 'src/notifier/notifier.ts',
      text: 'this.#isStandby = ctx.takesOver;',
      by: 'this.#isStandby = false;',
    },
  },
  // A rejected reload changes nothing, and a reload drains no worker in force.
  {
    name: 'rejected-reload-drains-the-old-workers',
    faults: 'badReload',
    edit: {
      file: reload,
      text: 'await fleet.drain([failed], ',
      by: 'await fleet.drain([fleet.current], ',
    },
  },
  {
    name: 'reload-drains-the-new-workers',
    edit: { file: reload, text: 'await fleet.drain([old], ', by: 'await fleet.drain([next], ' },
  },
  {
    name: 'rejected-reload-is-in-force',
    faults: 'badReload',
    edit: {
      file: fleet,
      text: '    this.#leave(failed);',
      by: '    this.#leave(this.#current);\n    this.#current = failed;',
    },
  },
  {
    name: 'late-reload-counts-as-rejected',
    faults: 'reload,badStart',
    edit: {
      file: reload,
      text: "return { kind: 'reloaded', flaws: [`$",
      by: "return { kind: 'refused', reason: 'late', flaws: [`$",
    },
  },
  // Every place is filled in the end, and no other process lives.
  {
    name: 'terminated-worker-is-not-replaced',
    faults: 'terminate',
    edit: {
      file: workers('supervisor'),
      text: 'drained after a signal of its own`);\n      return true;',
      by: 'drained after a signal of its own`);\n      return false;',
    },
  },
  {
    name: 'failed-fork-is-not-repeated',
    faults: 'badStart',
    edit: {
      file: workers('worker-slot'),
      text: 'if (this.#host.spawnFailed(this, error)) this.#fillLater();',
      by: 'this.#host.spawnFailed(this, error);',
    },
  },
  {
    name: 'leaving-generation-starts-workers',
    faults: 'reload,reloadDeath,kill',
    edit: { file: fleet, text: '    generation.release();\n    // Without', by: '    // Without' },
  },
  {
    name: 'silence-is-not-noticed',
    faults: 'hang',
    edit: {
      file: workers('worker-process'),
      text: 'return this.#ticks === this.#maxTicks;',
      by: 'return this.#ticks < 0;',
    },
  },
  {
    name: 'other-numbers-are-not-in-force',
    faults: 'reload,reloads',
    edit: {
      file: workers('generation'),
      text: "['notifier', config['notifier.workers']],",
      by: "['notifier', (before?.config ?? config)['notifier.workers']],",
    },
  },
  // The master kills only late and silent workers.
  {
    name: 'messages-end-no-silence',
    edit: {
      file: workers('worker-process'),
      text: '  #receive(message: ToMaster): void {\n    this.#silence.end();',
      by: '  #receive(message: ToMaster): void {',
    },
  },
  {
    name: 'short-silence-kills',
    faults: 'pause',
    edit: {
      file: workers('worker-process'),
      text: 'return this.#ticks === this.#maxTicks;',
      by: 'return this.#ticks === this.#maxTicks / 4;',
    },
  },
  {
    name: 'take-over-stays-late',
    faults: reloads,
    edit: {
      file: workers('worker-process'),
      text: "        if (this.state === 'ready') this.#killTimer?.clear();\n",
      by: '',
    },
  },
  // A start and a take-over have their whole time.
  {
    name: 'start-has-a-part-of-its-time',
    faults: 'storeDown,badStart',
    edit: {
      file: workers('worker-process'),
      text: 'this.#killAfter(readyMs, `',
      by: 'this.#killAfter(readyMs / 20, `',
    },
  },
  {
    name: 'ready-worker-stays-late',
    edit: {
      file: workers('worker-process'),
      text: "          this.#killTimer?.clear();\n          if (this.#hasTakenOver === 'asked')",
      by: "          if (this.#hasTakenOver === 'asked')",
    },
  },
  // A worker that dies early is started later.
  {
    name: 'early-death-without-delay',
    faults: 'kill,badStart',
    edit: { file: workers('crash-loop'), text: 'return earlyDeaths === 0', by: 'return earlyDeaths <= 1' },
  },
  {
    name: 'delay-does-not-grow',
    faults: 'badStart',
    edit: {
      file: workers('worker-slot'),
      text: '? 0 : this.#earlyDeaths + 1;',
      by: '? 0 : 1;',
    },
  },
  // The daemon gives up in a crash loop, and only there.
  {
    name: 'gives-up-early',
    faults: 'badStart,kill',
    edit: {
      file: workers('crash-loop'),
      text: 'if (recent.length >= masterLimits.crashLoopFailures || this.#hangsOn(role)) {',
      by: 'if (recent.length >= 3 || this.#hangsOn(role)) {',
    },
  },
  {
    name: 'never-gives-up',
    faults: 'badStart,restart',
    edit: {
      file: workers('crash-loop'),
      text: "      if (hopeless) return 'give_up';\n",
      by: '',
    },
  },
  {
    name: 'gives-up-beside-a-living-worker',
    faults: 'badStart',
    edit: {
      file: workers('supervisor'),
      text: '(isStarting || (noneAlive && !hung));',
      by: '(isStarting || noneAlive || !hung);',
    },
  },
  // The daemon works without a console that hangs or fails.
  {
    name: 'gives-up-for-a-console',
    faults: 'badStart',
    edit: {
      file: workers('supervisor'),
      text: "const hopeless = role !== 'console' && (isStarting",
      by: 'const hopeless = (isStarting',
    },
  },
  {
    name: 'start-waits-for-the-console',
    faults: 'badStart,restart',
    edit: {
      file: workers('generation'),
      text: " || slot.role === 'console'",
      by: '',
    },
  },
  // A stop and a reload end in time, and leave no worker.
  {
    name: 'late-drain-is-not-ended',
    faults: 'reload,hang,restart',
    edit: {
      file: workers('worker-process'),
      text: "    this.#killAfter(deadlineMs + 2 * limits.drainGraceMs, 'did not end in time');\n",
      by: '',
    },
  },
  {
    name: 'reload-waits-without-end',
    faults: 'badReload',
    edit: { file: reload, text: '      isLate = true;\n', by: '' },
  },
  {
    name: 'stop-forgets-the-leaving-generation',
    faults: 'reload,restart',
    edit: {
      file: fleet,
      text: "await this.drain(this.all(), callbacksMs, 'stop');",
      by: "await this.drain([this.#current], callbacksMs, 'stop');",
    },
  },
  {
    name: 'stop-does-not-wait-for-dq-store',
    faults: 'restart',
    edit: {
      file: fleet,
      text: '      await ended(last);\n',
      by: "      if (why !== 'stop') await ended(last);\n",
    },
  },
  // One reload at a time, and no third generation.
  {
    name: 'reload-waits-for-no-earlier-one',
    faults: 'reloads,receiverDown',
    edit: { file: reload, text: '    await this.#untilOthersHaveLeft();\n', by: '' },
  },
  {
    name: 'reloads-run-at-once',
    faults: 'reloads',
    edit: {
      file: 'src/master/reload-queue.ts',
      text: 'const outcome = this.#last.then(() => {',
      by: 'const outcome = Promise.resolve().then(() => {',
    },
  },
  // A reload loses no push and doubles no call.
  {
    name: 'worker-exits-without-a-drain',
    faults: 'reload,reloads',
    edit: {
      file: life,
      text: "    await this.#composed?.drain(deadlineMs, cause === 'stop');\n",
      by: '',
    },
  },
  {
    name: 'old-calls-have-no-time',
    faults: 'reload,reloads',
    edit: {
      file: reload,
      text: 'masterLimits.reloadCallbacksMs',
      by: '0',
    },
  },
  // The relay: only dead notifiers lose their leases early.
  {
    name: 'leaving-notifiers-count-as-dead',
    faults: 'reload,reloads',
    edit: {
      file: workers('worker-relay'),
      text: 'const generations = this.#fleet.all();',
      by: 'const generations = [this.#fleet.current];',
    },
  },
];
