// Mistakes in the lead of instances with the option `standby`, each of which must break a rule in a simulated
// world on Redis (test/sim/lead.ts).
// Invariant (test/unit/mutants.test.ts): each text occurs once in its file.

import type { SimulatedMutant } from './mutants.ts';

const leadership = 'src/notifier/leadership.ts';
const row = 'src/registry/sql/tables/registry-leader.ts';

const edits: readonly Omit<SimulatedMutant, 'store'>[] = [
  // One instance calls jobs.
  {
    name: 'standby-each-instance-calls',
    edit: {
      file: leadership,
      text: 'this.#options.row === undefined || this.#hasRow || this.#isAlone',
      by: 'this.#options.row !== null || this.#hasRow || this.#isAlone',
    },
  },
  {
    name: 'standby-lead-lasts-until-the-next-answer',
    faults: 'standby,registryAway,freeze',
    edit: {
      file: leadership,
      text: 'this.#options.now() < this.#leadsUntil && wallNow() < this.#leadsUntilDate',
      by: 'this.#leadsUntil > 0 && wallNow() > 0',
    },
  },
  {
    name: 'standby-failed-attempt-counts-twice',
    faults: 'standby,registryAway',
    edit: {
      file: leadership,
      text: 'Math.min(now - this.#countedAt, longest)',
      by: 'Math.min(now - this.#countedAt + notifierLimits.leaderEveryMs, longest)',
    },
  },
  {
    name: 'standby-leaving-process-frees-the-row-of-its-siblings',
    faults: 'standby,reload',
    edit: {
      file: row,
      text: 'AND NOT EXISTS (SELECT 1 FROM leader_process WHERE instance = ',
      by: 'AND NOT EXISTS (SELECT 1 FROM leader_process WHERE -1 = ',
    },
  },
  // Another instance leads soon.
  {
    name: 'standby-expired-row-stays',
    faults: 'standby,instanceDown',
    edit: {
      file: row,
      text: 'before.leftMs > 0 && before.leftMs <= leaseMs',
      by: 'before.instance > 0 && before.leftMs <= leaseMs',
    },
  },
  // A reload that keeps standby does not change the leader.
  {
    name: 'standby-next-notifier-asks-after-the-reload',
    faults: 'standby,reload',
    edit: {
      file: 'src/notifier/notifier.ts',
      text: 'if (!this.#ctx.config.noDeliveries) await this.#leadership.start();\n    if (!this.#isStandby) await this.takeOver();',
      by: 'if (!this.#isStandby) await this.#leadership.start();\n    if (!this.#isStandby) await this.takeOver();',
    },
  },
  // A leader gives up after its last call.
  {
    name: 'standby-gives-up-before-its-calls-end',
    faults: 'standby,receiverDown',
    edit: {
      file: 'src/notifier/notifier.ts',
      text: '    await stopped;\n',
      by: '    await stopped;\n    await this.#leadership.giveUp();\n',
    },
  },
];

export const standbyMutants: readonly SimulatedMutant[] = edits.map((mutant) => ({
  ...mutant,
  store: 'redis',
  faults: mutant.faults ?? 'standby',
}));
