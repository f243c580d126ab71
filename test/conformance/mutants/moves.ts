// Mistakes of promote and reserve.

import { dealTickets, type ReadyRings } from '../../../src/store/wheel.ts';
import { change, type Mutant, mutant } from './mutant.ts';

const noRings: ReadyRings = { high: [], normal: [], low: [] };

export const moveMutants: readonly Mutant[] = [
  mutant('promote is early', 'promote: moves no job before it is due', (m) =>
    change(m, 'promote', () => (max) => {
      const due = m
        .inState('delayed')
        .filter((job) => job.dueAt <= m.now() + 150)
        .slice(0, max);
      for (const job of due) m.makeReady(job);
      return { moved: due.length, waitMs: null };
    }),
  ),
  mutant(
    'promote takes any order',
    'promote: moves the earliest first, equal ones by version, and answers 0 while more are due',
    (m) =>
      change(m, 'promote', (right) => (max) => {
        const [first] = m.inState('delayed').filter((job) => job.dueAt <= m.now());
        if (first === undefined) return right(max);
        m.makeReady(first);
        return { moved: 1, waitMs: m.inState('delayed').length > 0 ? 0 : null };
      }),
  ),
  mutant(
    'promote ignores max',
    'promote: moves the earliest first, equal ones by version, and answers 0 while more are due',
    (m) => change(m, 'promote', (right) => () => right(500)),
  ),
  mutant('promote does not say how long to wait', 'promote: says how long until the next job is due', (m) =>
    change(m, 'promote', (right) => (max) => ({ ...right(max), waitMs: null })),
  ),
  mutant(
    'reserve deletes the body',
    'reserve: leases a ready job to its owner and leaves its body in place',
    (m) =>
      change(m, 'lease', (right) => (job, owner, leaseMs) => {
        const answer = right(job, owner, leaseMs);
        job.body = Buffer.alloc(0);
        return answer;
      }),
  ),
  mutant(
    'reserve leaves the job ready',
    'reserve: gives each job once to many that ask at the same time',
    (m) =>
      change(m, 'lease', (right) => (job, owner, leaseMs) => {
        const answer = right(job, owner, leaseMs);
        if (job.version % 3 === 0) job.state = 'ready';
        return answer;
      }),
  ),
  mutant('all topics get the same lease', 'reserve: leases each topic for as long as the caller says', (m) =>
    change(m, 'lease', (right) => (job, owner) => right(job, owner, 60_000)),
  ),
  mutant('owners are kept in 31 bits', 'recoverOwners: knows an instance by all of its 32 bits', (m) =>
    change(
      m,
      'lease',
      (right) => (job, owner, leaseMs) =>
        right(job, { ...owner, instance: owner.instance & 0x7fff_ffff }, leaseMs),
    ),
  ),
  mutant('room is ignored', 'reserve: keeps to the room of each topic and skips those without', (m) =>
    change(
      m,
      'deal',
      (right) => (rings, asked) =>
        right(rings, { ...asked, topics: new Map(), others: { room: 250, leaseMs: 1 } }),
    ),
  ),
  mutant('room counts per priority', 'reserve: counts the room of a topic over all its priorities', (m) =>
    change(m, 'deal', () => (rings, asked) => {
      const each = Object.entries(rings).map(([priority, ring]) =>
        dealTickets(0, { ...noRings, [priority]: ring }, asked),
      );
      return { deals: each.flatMap((dealt) => dealt.deals), position: 0, rings, more: false };
    }),
  ),
  mutant('max is ignored', 'reserve: takes at most max and says whether more had room', (m) =>
    change(m, 'deal', (right) => (rings, asked) => right(rings, { ...asked, max: 250 })),
  ),
  mutant(
    'more counts topics without room',
    'reserve: keeps to the room of each topic and skips those without',
    (m) =>
      change(m, 'deal', (right) => (rings, asked) => {
        const dealt = right(rings, asked);
        return { ...dealt, more: Object.values(dealt.rings).some((ring) => ring.length > 0) };
      }),
  ),
  mutant(
    'the wheel stands still: high goes first',
    'reserve: turns the wheel H N H L H N H N H L in one call',
    (m) =>
      change(m, 'deal', (right) => (rings, asked) => {
        const high = right({ ...noRings, high: rings.high }, asked);
        return high.deals.length > 0
          ? { ...high, rings: { ...rings, high: high.rings.high } }
          : right(rings, asked);
      }),
  ),
  mutant(
    'the wheel starts again with each call',
    'reserve: keeps the position of the wheel between calls of any owner',
    (m) => change(m, 'deal', (right) => (rings, asked) => ({ ...right(rings, asked), position: 0 })),
  ),
  mutant(
    'an empty priority wastes its ticket',
    'reserve: passes the ticket of a priority that is empty or without room on',
    (m) =>
      change(m, 'deal', (right) => (rings, asked) => {
        const letters = 'hnhlhnhnhl';
        const { deals } = right(rings, asked);
        const passedOn = deals.findIndex(
          ({ priority }, n) => !priority.startsWith(letters[(m.position + n) % 10] ?? ''),
        );
        return right(rings, { ...asked, max: passedOn < 0 ? asked.max : passedOn });
      }),
  ),
  mutant('topics take no turns', 'reserve: goes round the topics of a priority, whatever their queues', (m) =>
    change(m, 'deal', (right) => (rings, asked) => ({ ...right(rings, asked), rings })),
  ),
  mutant(
    'a topic gives its latest job first',
    'reserve: takes the earliest due of a topic first, equal ones by version',
    (m) => change(m, 'waiting', (right) => (priority, topic) => right(priority, topic).reverse()),
  ),
  mutant(
    'equal ones are given by id',
    'reserve: takes the earliest due of a topic first, equal ones by version',
    (m) =>
      change(
        m,
        'waiting',
        (right) => (priority, topic) =>
          right(priority, topic).sort((a, b) => a.dueAt - b.dueAt || (a.id < b.id ? -1 : 1)),
      ),
  ),
];
