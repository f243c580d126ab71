// Mistakes in the master and in the life of a worker, each of which must break a rule in a simulated world
// (test/sim/master-rules.ts). Every rule has at least two.

import type { Mutants, SimulatedMutant } from './mistake.ts';

const workers = (name: string) => `src/master/workers/${name}.ts`;
const fleet = workers('fleet');
const reload = 'src/master/reload.ts';
const life = 'src/process/worker-life.ts';
const reloads = 'reload,reloads,badReload';

export const masterMutants: Mutants<SimulatedMutant> = {
  // Only one dq-store and one dq-upkeep work.
  'take-over-beside-the-old-one': {
    file: fleet,
    text: '      if (this.#hasOlder(role)) continue;\n',
    by: '',
  },
  'store-on-trial-opens-its-file': {
    file: fleet,
    text: 'return isOnTrial || this.#hasOlder(slot.role);',
    by: 'return this.#hasOlder(slot.role);',
  },
  'restarted-store-waits-for-no-older-one': {
    faults: 'reload,reloadDeath,storeKill',
    file: fleet,
    text: 'return isOnTrial || this.#hasOlder(slot.role);',
    by: 'return isOnTrial;',
  },
  'take-over-is-not-awaited': { file: life, text: '    await this.#takeOverAllowed;\n', by: '' },
  // A notifier on trial calls nothing.
  'notifier-on-trial-works': {
    faults: reloads,
    file: fleet,
    text: "if (slot.role === 'notifier') return isOnTrial;",
    by: "if (slot.role === 'notifier') return false;",
  },
  'notifier-is-never-standby': {
    faults: reloads,
    file: 'src/notifier/notifier.ts',
    text: 'this.#isStandby = ctx.takesOver;',
    by: 'this.#isStandby = false;',
  },
  // A rejected reload changes nothing, and a reload drains no worker in force.
  'rejected-reload-drains-the-old-workers': {
    faults: 'badReload',
    file: reload,
    text: 'await fleet.drain([failed], ',
    by: 'await fleet.drain([fleet.current], ',
  },
  'reload-drains-the-new-workers': {
    file: reload,
    text: 'await fleet.drain([old], ',
    by: 'await fleet.drain([next], ',
  },
  'rejected-reload-is-in-force': {
    faults: 'badReload',
    file: fleet,
    text: '    this.#leave(failed);',
    by: '    this.#leave(this.#current);\n    this.#current = failed;',
  },
  'late-reload-counts-as-rejected': {
    faults: 'reload,badStart',
    file: reload,
    text: "return { kind: 'reloaded', flaws: [`$",
    by: "return { kind: 'refused', reason: 'late', flaws: [`$",
  },
  // Every place is filled in the end, and no other process lives.
  'terminated-worker-is-not-replaced': {
    faults: 'terminate',
    file: workers('supervisor'),
    text: 'drained after a signal of its own`);\n      return true;',
    by: 'drained after a signal of its own`);\n      return false;',
  },
  'failed-fork-is-not-repeated': {
    faults: 'badStart',
    file: workers('worker-slot'),
    text: 'if (this.#host.spawnFailed(this, error)) this.#fillLater();',
    by: 'this.#host.spawnFailed(this, error);',
  },
  'leaving-generation-starts-workers': {
    faults: 'reload,reloadDeath,kill',
    file: fleet,
    text: '    generation.release();\n    // Without',
    by: '    // Without',
  },
  'silence-is-not-noticed': {
    faults: 'hang',
    file: workers('worker-process'),
    text: 'return this.#ticks === this.#maxTicks;',
    by: 'return this.#ticks < 0;',
  },
  'other-numbers-are-not-in-force': {
    faults: 'reload,reloads',
    file: workers('generation'),
    text: "['notifier', config['notifier.workers']],",
    by: "['notifier', (before?.config ?? config)['notifier.workers']],",
  },
  // The master kills only late and silent workers.
  'messages-end-no-silence': {
    file: workers('worker-process'),
    text: '  #receive(message: ToMaster): void {\n    this.#silence.end();',
    by: '  #receive(message: ToMaster): void {',
  },
  'short-silence-kills': {
    faults: 'pause',
    file: workers('worker-process'),
    text: 'return this.#ticks === this.#maxTicks;',
    by: 'return this.#ticks === this.#maxTicks / 4;',
  },
  'take-over-stays-late': {
    faults: reloads,
    file: workers('worker-process'),
    text: "        if (this.state === 'ready') this.#killTimer?.clear();\n",
    by: '',
  },
  // A start and a take-over have their whole time.
  'start-has-a-part-of-its-time': {
    faults: 'storeDown,badStart',
    file: workers('worker-process'),
    text: 'this.#killAfter(readyMs, `',
    by: 'this.#killAfter(readyMs / 20, `',
  },
  'ready-worker-stays-late': {
    file: workers('worker-process'),
    text: "          this.#killTimer?.clear();\n          if (this.#hasTakenOver === 'asked')",
    by: "          if (this.#hasTakenOver === 'asked')",
  },
  // A worker that dies early is started later.
  'early-death-without-delay': {
    faults: 'kill,badStart',
    file: workers('worker-slot'),
    text: 'return earlyDeaths === 0',
    by: 'return earlyDeaths <= 1',
  },
  'delay-does-not-grow': {
    faults: 'badStart',
    file: workers('worker-slot'),
    text: '? 0 : this.#earlyDeaths + 1;',
    by: '? 0 : 1;',
  },
  // The daemon gives up in a crash loop, and only there.
  'gives-up-early': {
    faults: 'badStart,kill',
    file: workers('worker-slot'),
    text: 'if (recent.length >= masterLimits.crashLoopFailures || this.#hangsOn(role)) {',
    by: 'if (recent.length >= 3 || this.#hangsOn(role)) {',
  },
  'never-gives-up': {
    faults: 'badStart,restart',
    file: workers('worker-slot'),
    text: "      if (hopeless) return 'give_up';\n",
    by: '',
  },
  'gives-up-beside-a-living-worker': {
    faults: 'badStart',
    file: workers('supervisor'),
    text: '(isStarting || (noneAlive && !hung));',
    by: '(isStarting || noneAlive || !hung);',
  },
  // The daemon works without a console that hangs or fails.
  'gives-up-for-a-console': {
    faults: 'badStart',
    file: workers('supervisor'),
    text: "const hopeless = role !== 'console' && (isStarting",
    by: 'const hopeless = (isStarting',
  },
  'start-waits-for-the-console': {
    faults: 'badStart,restart',
    file: workers('generation'),
    text: " || slot.role === 'console'",
    by: '',
  },
  // A stop and a reload end in time, and leave no worker.
  'late-drain-is-not-ended': {
    faults: 'reload,hang,restart',
    file: workers('worker-process'),
    text: "    this.#killAfter(deadlineMs + 2 * limits.drainGraceMs, 'did not end in time');\n",
    by: '',
  },
  'reload-waits-without-end': { faults: 'badReload', file: reload, text: '      isLate = true;\n', by: '' },
  'stop-forgets-the-leaving-generation': {
    faults: 'reload,restart',
    file: fleet,
    text: "await this.drain(this.all(), callbacksMs, 'stop');",
    by: "await this.drain([this.#current], callbacksMs, 'stop');",
  },
  'stop-does-not-wait-for-dq-store': {
    faults: 'restart',
    file: fleet,
    text: '      await ended(last);\n',
    by: "      if (why !== 'stop') await ended(last);\n",
  },
  // One reload at a time, and no third generation.
  'reload-waits-for-no-earlier-one': {
    faults: 'reloads,receiverDown',
    file: reload,
    text: '    await this.#untilOthersHaveLeft();\n',
    by: '',
  },
  'reloads-run-at-once': {
    faults: 'reloads',
    file: 'src/master/reload-queue.ts',
    text: 'const outcome = this.#last.then(() => {',
    by: 'const outcome = Promise.resolve().then(() => {',
  },
  // A reload loses no push and doubles no call.
  'worker-exits-without-a-drain': {
    faults: 'reload,reloads',
    file: life,
    text: "    await this.#composed?.drain(deadlineMs, cause === 'stop');\n",
    by: '',
  },
  'old-calls-have-no-time': {
    faults: 'reload,reloads',
    file: reload,
    text: 'masterLimits.reloadCallbacksMs',
    by: '0',
  },
  // The relay: only dead notifiers lose their leases early.
  'leaving-notifiers-count-as-dead': {
    faults: 'reload,reloads',
    file: workers('worker-relay'),
    text: 'const generations = this.#fleet.all();',
    by: 'const generations = [this.#fleet.current];',
  },
};
