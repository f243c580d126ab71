// Mistakes of promote and reserve.

import { dealTickets, type ReadyRings } from '../../support/deal-tickets.ts';
import { change, type Mutant, mutant, mutants } from './mutant.ts';

const noRings: ReadyRings = { high: [], normal: [], low: [] };

export const moveMutants: readonly Mutant[] = [
  ...mutants({
    'promote: moves no job before it is due': {
      'promote is 1 ms late': change('promote', (right, m) => (max) => {
        const due = m.inState('delayed').some((job) => job.dueAt === m.now());
        return due ? { moved: 0, waitMs: 1 } : right(max);
      }),
    },
    'promote: moves the earliest first, equal ones by version; 0 = more are due': {
      'promote takes any order': change('promote', (right, m) => (max) => {
        const [first] = m.inState('delayed').filter((job) => job.dueAt <= m.now());
        if (first === undefined) return right(max);
        m.makeReady(first);
        return { moved: 1, waitMs: m.inState('delayed').length > 0 ? 0 : null };
      }),
      'promote ignores max': change('promote', (right) => () => right(500)),
    },
    'promote: returns the time until the next job is due': {
      'promote returns no wait': change('promote', (right) => (max) => ({ ...right(max), waitMs: null })),
      'promote returns a wait 1 ms short': change('promote', (right) => (max) => {
        const { moved, waitMs } = right(max);
        return { moved, waitMs: waitMs && waitMs - 1 };
      }),
    },
    'reserve: leases a ready job and keeps its body': {
      'reserve deletes the body': change('lease', (right) => (job, owner, leaseMs) => {
        const answer = right(job, owner, leaseMs);
        job.body = Buffer.alloc(0);
        return answer;
      }),
    },
    'reserve: concurrent calls get each job once': {
      'reserve leaves the job ready': change('lease', (right) => (job, owner, leaseMs) => {
        const answer = right(job, owner, leaseMs);
        if (job.version % 3 === 0) job.state = 'ready';
        return answer;
      }),
    },
    'reserve: leases each topic for the requested time': {
      'all topics get the same lease': change('lease', (right) => (job, owner) => right(job, owner, 60_000)),
    },
    'recoverOwners: compares all 32 bits of an instance': {
      'owners are kept in 31 bits': change(
        'lease',
        (right) => (job, owner, leaseMs) =>
          right(job, { ...owner, instance: owner.instance & 0x7fff_ffff }, leaseMs),
      ),
    },
    'reserve: respects the capacity of each topic and skips topics without': {
      'capacity is ignored': change(
        'deal',
        (right) => (rings, asked) =>
          right(rings, { ...asked, topics: new Map(), others: { room: 250, leaseMs: 1 } }),
      ),
      'more counts topics without capacity': change('deal', (right) => (rings, asked) => {
        const dealt = right(rings, asked);
        return { ...dealt, more: Object.values(dealt.rings).some((ring) => ring.length > 0) };
      }),
    },
    'reserve: the capacity of a topic counts over all priorities': {
      'capacity counts per priority': change('deal', () => (rings, asked) => {
        const each = Object.entries(rings).map(([priority, ring]) =>
          dealTickets(0, { ...noRings, [priority]: ring }, asked),
        );
        return { deals: each.flatMap((dealt) => dealt.deals), position: 0, rings, more: false };
      }),
    },
    'reserve: takes at most max; returns whether more had capacity': {
      'max is ignored': change('deal', (right) => (rings, asked) => right(rings, { ...asked, max: 250 })),
    },
    'reserve: turns the wheel H N H L H N H N H L in one call': {
      'the wheel stands still: high goes first': change('deal', (right) => (rings, asked) => {
        const high = right({ ...noRings, high: rings.high }, asked);
        return high.deals.length > 0
          ? { ...high, rings: { ...rings, high: high.rings.high } }
          : right(rings, asked);
      }),
    },
    'reserve: the wheel keeps its position between calls of any owner': {
      'the wheel starts again with each call': change('deal', (right) => (rings, asked) => ({
        ...right(rings, asked),
        position: 0,
      })),
    },
    'reserve: passes on the ticket of a priority without jobs or capacity': {
      'an empty priority wastes its ticket': change('deal', (right, m) => (rings, asked) => {
        const letters = 'hnhlhnhnhl';
        const { deals } = right(rings, asked);
        const passedOn = deals.findIndex(
          ({ priority }, n) => !priority.startsWith(letters[(m.position + n) % 10] ?? ''),
        );
        return right(rings, { ...asked, max: passedOn < 0 ? asked.max : passedOn });
      }),
    },
    'reserve: takes turns over the topics of a priority': {
      'topics take no turns': change('deal', (right) => (rings, asked) => ({
        ...right(rings, asked),
        rings,
      })),
    },
    'reserve: takes the earliest due of a topic first, equal ones by version': {
      'a topic serves its latest job first': change(
        'waiting',
        (right) => (priority, topic) => right(priority, topic).reverse(),
      ),
      'equal ones are served by id': change(
        'waiting',
        (right) => (priority, topic) =>
          right(priority, topic).sort((a, b) => a.dueAt - b.dueAt || (a.id < b.id ? -1 : 1)),
      ),
    },
  }),
  ...([150, 1] as const).map((earlyMs) =>
    mutant(
      `promote is ${earlyMs} ms early`,
      'promote: moves no job before it is due',
      change('promote', (right, m) => (max) => {
        const due = m.inState('delayed').filter((job) => job.dueAt - m.now() <= earlyMs);
        for (const job of due) m.makeReady(job);
        const { moved, waitMs } = right(max);
        return { moved: moved + due.length, waitMs };
      }),
    ),
  ),
];
