// Mistakes in limits, alerts and the deadlines of the master, each of which must break a
// rule in a simulated world (test/sim). Part of simulated.ts.

import type { SimulatedMutant } from './mutants.ts';

const engine = (name: string) => `src/store/sqlite/engine/${name}.ts`;
const worker = 'src/master/workers/worker-process.ts';
const recipients = 'src/upkeep/alerts/recipient-state.ts';
const mailer = 'src/upkeep/alerts/mailer.ts';

export const orderMutants: readonly SimulatedMutant[] = [
  {
    name: 'failed-step-keeps-the-counters',
    faults: 'diskFull',
    livesBecause: 'In a world no step fails within its savepoint: the disk reserve has space for each.',
    edit: {
      file: engine('engine'),
      text: '      counters.rollBackTo(savepoint);\n',
      by: '',
    },
  },
  {
    name: 'full-disk-gives-strikes',
    faults: 'diskFull,pause',
    edit: {
      file: engine('recovery'),
      text: 'if (isDiskFull) return',
      by: 'if (isDiskFull && bound < 0) return',
    },
  },
  {
    name: 'take-over-has-a-part-of-its-time',
    faults: 'reload,storeDown',
    edit: {
      file: worker,
      text: "if (this.state === 'ready') this.#killLate('did not take over');",
      by: "if (this.state === 'ready') this.#killAfter(5, 'did not take over');",
    },
  },
  {
    name: 'deferred-address-counts-as-served',
    faults: 'mailTrouble,receiverDown',
    edit: {
      file: recipients,
      text: "if (kind === 'deferred' || (kind",
      by: 'if ((kind',
    },
  },
  {
    name: 'failed-mail-settles-its-alerts',
    faults: 'mailTrouble,receiverDown',
    edit: { file: recipients, text: "} else if (kind !== 'failed') {", by: '} else {' },
  },
  {
    name: 'alerts-wait-for-a-death',
    faults: 'mailTrouble,receiverDown',
    edit: {
      file: mailer,
      text: 'this.#nextRoundAt = turnAfter(pollMs);',
      by: 'this.#nextRoundAt = Number.POSITIVE_INFINITY;',
    },
  },
];
