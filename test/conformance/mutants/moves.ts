// Mistakes of promote and reserve.

import { dealTickets, type ReadyRings } from '../../support/deal-tickets.ts';
import { change, type Mutant, mutant } from './mutant.ts';

const noRings: ReadyRings = { high: [], normal: [], low: [] };

export const moveMutants: readonly Mutant[] = [
  ...([150, 1] as const).map((earlyMs) =>
    mutant(`promote is ${earlyMs} ms early`, 'promote: moves no job before it is due', (m) =>
      change(m, 'promote', (right) => (max) => {
        const due = m.inState('delayed').filter((job) => job.dueAt - m.now() <= earlyMs);
        for (const job of due) m.makeReady(job);
        const { moved, waitMs } = right(max);
        return { moved: moved + due.length, waitMs };
      }),
    ),
  ),
  mutant('promote is 1 ms late', 'promote: moves no job before it is due', (m) =>
    change(m, 'promote', (right) => (max) => {
      const due = m.inState('delayed').some((job) => job.dueAt === m.now());
      return due ? { moved: 0, waitMs: 1 } : right(max);
    }),
  ),
  mutant(
    'promote takes any order',
    'promote: moves the earliest first, equal ones by version; 0 = more are due',
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
    'promote: moves the earliest first, equal ones by version; 0 = more are due',
    (m) => change(m, 'promote', (right) => () => right(500)),
  ),
  mutant('promote returns no wait', 'promote: returns the time until the next job is due', (m) =>
    change(m, 'promote', (right) => (max) => ({ ...right(max), waitMs: null })),
  ),
  mutant('promote returns a wait 1 ms short', 'promote: returns the time until the next job is due', (m) =>
    change(m, 'promote', (right) => (max) => {
      const { moved, waitMs } = right(max);
      return { moved, waitMs: waitMs && waitMs - 1 };
    }),
  ),
  mutant('reserve deletes the body', 'reserve: leases a ready job and keeps its body', (m) =>
    change(m, 'lease', (right) => (job, owner, leaseMs) => {
      const answer = right(job, owner, leaseMs);
      job.body = Buffer.alloc(0);
      return answer;
    }),
  ),
  mutant('reserve leaves the job ready', 'reserve: concurrent calls get each job once', (m) =>
    change(m, 'lease', (right) => (job, owner, leaseMs) => {
      const answer = right(job, owner, leaseMs);
      if (job.version % 3 === 0) job.state = 'ready';
      return answer;
    }),
  ),
  mutant('all topics get the same lease', 'reserve: leases each topic for the requested time', (m) =>
    change(m, 'lease', (right) => (job, owner) => right(job, owner, 60_000)),
  ),
  mutant('owners are kept in 31 bits', 'recoverOwners: compares all 32 bits of an instance', (m) =>
    change(
      m,
      'lease',
      (right) => (job, owner, leaseMs) =>
        right(job, { ...owner, instance: owner.instance & 0x7fff_ffff }, leaseMs),
    ),
  ),
  mutant(
    'capacity is ignored',
    'reserve: respects the capacity of each topic and skips topics without',
    (m) =>
      change(
        m,
        'deal',
        (right) => (rings, asked) =>
          right(rings, { ...asked, topics: new Map(), others: { room: 250, leaseMs: 1 } }),
      ),
  ),
  mutant('capacity counts per priority', 'reserve: the capacity of a topic counts over all priorities', (m) =>
    change(m, 'deal', () => (rings, asked) => {
      const each = Object.entries(rings).map(([priority, ring]) =>
        dealTickets(0, { ...noRings, [priority]: ring }, asked),
      );
      return { deals: each.flatMap((dealt) => dealt.deals), position: 0, rings, more: false };
    }),
  ),
  mutant('max is ignored', 'reserve: takes at most max; returns whether more had capacity', (m) =>
    change(m, 'deal', (right) => (rings, asked) => right(rings, { ...asked, max: 250 })),
  ),
  mutant(
    'more counts topics without capacity',
    'reserve: respects the capacity of each topic and skips topics without',
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
    'reserve: the wheel keeps its position between calls of any owner',
    (m) => change(m, 'deal', (right) => (rings, asked) => ({ ...right(rings, asked), position: 0 })),
  ),
  mutant(
    'an empty priority wastes its ticket',
    'reserve: passes on the ticket of a priority without jobs or capacity',
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
  mutant('topics take no turns', 'reserve: takes turns over the topics of a priority', (m) =>
    change(m, 'deal', (right) => (rings, asked) => ({ ...right(rings, asked), rings })),
  ),
  mutant(
    'a topic serves its latest job first',
    'reserve: takes the earliest due of a topic first, equal ones by version',
    (m) => change(m, 'waiting', (right) => (priority, topic) => right(priority, topic).reverse()),
  ),
  mutant(
    'equal ones are served by id',
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
