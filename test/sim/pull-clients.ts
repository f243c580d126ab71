// The pull clients of a world, which are scripted: they wait for jobs, and ack, nack, release and extend
// their leases, in time, late, twice or never; they die, and their connections break. Others show leases that
// dq did not give, or gave to a client before.
// They keep what dq answered, and hold the rules on it.

import type { Dice } from '../../scripts/dice.ts';
import { limits } from '../../src/core/limits.ts';
import { leaseText, type PulledLease, readLease } from '../../src/core/pull-lease.ts';
import type { LeaseResult } from '../../src/intake/pull/pull-calls.ts';
import type { Instances } from './instances.ts';
import { keyOf, type LeaseRecord, seconds } from './ledger.ts';
import { ClientRequest, type End, type LeaseAsk, type PullAsk, type PulledItem } from './pull-desk.ts';
import { leaseKey, type Server } from './roles.ts';
import type { Scene } from './scene.ts';

/** Between two requests of a client without an answer. */
const againMs = 500;
/** Of a verb whose outcome the client does not know. */
const triesMax = 5;
/** A client gives a connection up after its wait. */
const spareMs = 10_000;

interface Held {
  readonly text: string;
  readonly record: LeaseRecord;
  readonly until: number;
}

/** A request that waits for jobs. */
export interface Wait {
  readonly ask: PullAsk;
  /** virtual ms */
  readonly sentAt: number;
  readonly server: Server;
}

/** What a client does with a job. */
type Plan = 'ack' | 'late' | 'twice' | 'nack' | 'delay' | 'bury' | 'release' | 'extend' | 'silent';
const usualPlans: readonly Plan[] = [
  ...(['ack', 'ack', 'ack', 'ack', 'ack', 'late', 'late', 'twice', 'nack', 'nack', 'delay'] as const),
  ...(['bury', 'release', 'extend', 'extend', 'silent', 'silent'] as const),
];

export class PullClients {
  readonly scene: Scene;
  readonly #instances: Instances;
  readonly waits = new Set<Wait>();
  /** each text that a client got */
  readonly #shown: Held[] = [];
  /** the clients answer each lease in time */
  isCalm = false;
  readonly counts: Record<string, number> = {};

  constructor(scene: Scene, instances: Instances) {
    this.scene = scene;
    this.#instances = instances;
  }

  /** For the whole time of the world. */
  begin(name: string, dice: Dice): void {
    new Client(name, dice, this).next();
  }

  /** One request with leases that its sender must not use, at a dq-server that works. */
  forge(dice: Dice): void {
    const server = this.server(dice);
    if (server === null) return;
    // While a journal puts lost jobs back, the end of an absent job counts for each genuine text.
    const kind = dice.pick(this.scene.journal === null ? forgeries : changedTexts);
    const made = this.#forged(kind, dice);
    if (made === null) return;
    const ask = askOf(dice);
    const { text, record } = made;
    this.scene.loop.tell(`A client shows a lease that is ${kind}: ${ask.verb} of ${record?.key ?? text}.`);
    this.#count(`forged ${kind}`);
    // Its text is genuine: where the store has lost the end of it, it holds.
    if (kind === 'past' && record?.wasForgotten === true) this.note(record, ask);
    this.#send(server, `${ask.verb}, forged`, [text], ask, (end) => {
      if (end.kind === 'lost' || end.kind === 'left') return;
      const isText = kind === 'no lease';
      const code = end.kind === 'answered' ? end.value[0]?.code : end.code;
      const isRight = isText ? code === 'invalid' : isUncertain(code) || code === 'lease_lost';
      const holdsAgain = kind === 'past' && record?.wasForgotten === true;
      this.scene.judge.check(
        isRight || holdsAgain,
        '2 a lease that dq did not give changes nothing',
        () => `${kind}: ${ask.verb} of ${record?.key ?? text} is answered ${code ?? 'done'}`,
      );
    });
  }

  /** Sends a request for jobs. */
  pull(name: string, server: Server, ask: PullAsk, onEnd: (end: End<readonly PulledItem[]>) => void) {
    const { loop } = this.scene;
    const wait: Wait = { ask, sentAt: loop.at, server };
    this.waits.add(wait);
    loop.tell(
      `Client ${name} asks ${server.process.title} for ${ask.max} of ${ask.topics.join(', ')}, wait ${seconds(ask.waitMs)}.`,
    );
    const request = new ClientRequest<readonly PulledItem[]>({
      ...{ scene: this.scene, process: server.process, desk: server.desk, name: 'pull' },
      act: (response) => server.desk.pull(response, name, ask),
      onSent: (items) => {
        for (const { lease } of items) this.#sent(this.#recordOf(lease));
      },
      onEnd: (end) => {
        this.waits.delete(wait);
        this.#checkOrderly(request.hasArrived, end, 'pull');
        onEnd(end);
      },
    });
    return request;
  }

  #sent(record: LeaseRecord | null): void {
    const { deadlines, ledger } = this.scene;
    if (record === null || record.pull === null) return;
    record.pull.see();
    deadlines.attempted(record, ledger.steppedAt);
  }

  /** The rules on jobs that a client got. */
  got(name: string, ask: PullAsk, items: readonly PulledItem[]): readonly Held[] {
    const { judge, loop, topics, ledger } = this.scene;
    judge.check(items.length <= ask.max, 'a client gets max jobs at most', () => `${name}: ${items.length}`);
    const held: Held[] = [];
    for (const item of items) {
      const key = keyOf(item);
      const record = this.#recordOf(item.lease);
      loop.tell(`Client ${name} gets ${key}, attempt ${item.attempt}.`);
      this.#count('pulled');
      if (record === null || record.pull === null || record.key !== key) {
        judge.fail('3 a pulled job is leased to its client', `${key}: ${record?.key ?? 'no lease'}`);
        continue;
      }
      const { pull, failures, ended } = record;
      judge.check(pull.client === null, '6 a lease has one client', () => `${key}: ${pull.client}, ${name}`);
      pull.client = name;
      judge.check(
        ask.topics.includes(item.topic),
        'a client gets jobs of its topics',
        () => `${name}: ${key}`,
      );
      judge.check(
        item.attempt === failures + 1,
        '7 only outcomes count as attempts',
        () => `${key}: attempt ${item.attempt} after ${failures} failures`,
      );
      const known = topics.possible(item.topic);
      const most = known.map(({ maxAttempts }) => maxAttempts);
      judge.check(
        most.includes(item.maxAttempts),
        'a client reads maxAttempts',
        () => `${key}: ${item.maxAttempts}`,
      );
      const until = Date.parse(item.leaseUntil);
      const lengths = ask.leaseMs === null ? known.map(({ leaseMs }) => leaseMs) : [ask.leaseMs];
      judge.check(
        lengths.includes(record.firstMs),
        '6 a lease is as long as its client asks',
        () => `${key}: ${record.firstMs} ms, not ${lengths.join(' or ')}`,
      );
      const entry = ledger.entries.get(key);
      if (ended === null && entry !== undefined)
        judge.check(entry.body.equals(item.body), '5 the body is unchanged', () => key);
      held.push({ text: item.lease, record, until });
    }
    this.#shown.push(...held);
    return held;
  }

  /** A client with these texts sends a verb. `others`: texts that are not its own go first. */
  answer(name: string, dice: Dice, held: Held, ask: LeaseAsk, onDone: () => void, tries = 1): void {
    const { loop } = this.scene;
    const server = this.server(dice);
    const again = () => {
      if (tries < triesMax)
        loop.after(againMs, null, 'client', () => this.answer(name, dice, held, ask, onDone, tries + 1));
    };
    if (server === null) {
      again();
      return;
    }
    const { record, text } = held;
    loop.tell(`Client ${name} sends ${ask.verb} of ${record.key} to ${server.process.title}.`);
    this.note(record, ask);
    // A call has leases of several senders.
    const before = dice.chance(0.1) ? [otherKeyText(record)] : [];
    const request = this.#send(server, ask.verb, [...before, text], ask, (end) => {
      const code =
        end.kind === 'answered' ? end.value.at(-1)?.code : end.kind === 'rejected' ? end.code : end.kind;
      loop.tell(`The answer to ${ask.verb} of ${record.key} is ${code ?? 'done'}.`);
      this.#checkAnswer(record, ask, code);
      if (before.length > 0 && end.kind === 'answered')
        this.scene.judge.check(
          end.value[0]?.code === 'lease_lost',
          '2 a lease that dq did not give changes nothing',
          () => `beside ${record.key}: ${end.value[0]?.code ?? 'done'}`,
        );
      if (isUncertain(code)) again();
      else onDone();
    });
    loop.after(spareMs, null, 'client', () => request.leave());
    if (!this.isCalm && dice.chance(0.1)) loop.after(dice.next() * 10, null, 'client', () => request.leave());
  }

  /** Its sender has the text of the lease. */
  note({ pull }: LeaseRecord, ask: LeaseAsk): void {
    const isDead = ask.verb === 'bury';
    if (ask.verb === 'extend') pull?.ask({ verb: 'extend', ms: ask.ms, isDead });
    else if (ask.verb === 'nack')
      pull?.ask({ verb: 'retry', ms: ask.delayMs, isDead }, { verb: 'bury', ms: null, isDead });
    else if (ask.verb === 'release' && ask.delayMs != null)
      pull?.ask(
        { verb: 'retry', ms: ask.delayMs, isDead, isSnooze: true },
        { verb: 'bury', ms: null, isDead },
      );
    else pull?.ask({ verb: ask.verb, ms: null, isDead });
  }

  server(dice: Dice): Server | null {
    const { servers } = this.#instances;
    return servers.length === 0 ? null : dice.pick(servers);
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  #send(
    server: Server,
    name: string,
    texts: readonly string[],
    ask: LeaseAsk,
    onEnd: (end: End<readonly LeaseResult[]>) => void,
  ): ClientRequest<readonly LeaseResult[]> {
    const request: ClientRequest<readonly LeaseResult[]> = new ClientRequest({
      ...{ scene: this.scene, process: server.process, desk: server.desk, name },
      act: () => server.desk.answer(texts, ask),
      onEnd: (end) => {
        this.#checkOrderly(request.hasArrived, end, name);
        onEnd(end);
      },
    });
    return request;
  }

  #checkAnswer(record: LeaseRecord, ask: LeaseAsk, code: string | undefined): void {
    const { verb } = ask;
    const isSnooze = verb === 'release' && ask.delayMs != null;
    const { judge } = this.scene;
    const { pull, key, ended } = record;
    const steps = verb === 'nack' || isSnooze ? (['retry', 'bury'] as const) : [verb];
    this.#count(`${verb} ${code ?? 'done'}`);
    if (code === undefined)
      judge.check(
        steps.some((step) => pull?.done.has(step) === true),
        '3 a reply follows the COMMIT',
        () => `${verb} of ${key} is answered, and not stored`,
      );
    else if (code === 'lease_lost')
      judge.check(
        ended !== null || record.wasForgotten,
        '2 a held lease is not lost',
        () => `${verb} of ${key}, token ${record.token}`,
      );
    else
      judge.check(isUncertain(code), 'a lease that dq gave is answered', () => `${verb} of ${key}: ${code}`);
  }

  /** Without a fault each request that reached a dq-server is answered, also by one that leaves. */
  #checkOrderly(hasArrived: boolean, { kind }: End<unknown>, what: string): void {
    const { judge, isOrderly } = this.scene;
    const isLost = kind === 'lost' && hasArrived;
    judge.check(!isOrderly || !isLost, 'a reload loses no answer to a client', () => what);
  }

  #recordOf(text: string): LeaseRecord | null {
    const lease = readLease(text, leaseKey);
    if (lease === null || lease === 'forged') return null;
    const { topic, id, token } = lease;
    const key = keyOf({ topic, id });
    // Shards may draw the same numbers.
    for (const { leases } of this.scene.ledger.all) {
      const record = leases.get(token);
      if (record?.key === key) return record;
    }
    return null;
  }

  /** null: there is none to make it of */
  #forged(kind: Forgery, dice: Dice): { readonly text: string; readonly record: LeaseRecord | null } | null {
    if (kind === 'no lease') return { text: dice.pick(['abc', '', 'bm8=', '~'.repeat(40)]), record: null };
    const all = this.scene.ledger.leases;
    const of = (picks: (record: LeaseRecord) => boolean) => {
      const found = all.filter(picks);
      return found.length === 0 ? null : dice.pick(found);
    };
    if (kind === 'past') {
      const past = this.#shown.filter(({ record }) => record.ended !== null);
      return past.length === 0 ? null : dice.pick(past);
    }
    const isHeld = ({ ended }: LeaseRecord) => ended === null;
    const record = of((one) => isHeld(one) && (one.pull === null) === (kind === 'of a notifier'));
    if (record === null) return null;
    const lease = leaseOf(record);
    if (kind === 'signed with another key') return { text: otherKeyText(record), record };
    if (kind === 'of a notifier') return { text: leaseText(lease, leaseKey), record };
    if (kind === 'changed') return { text: changed(lease, dice), record };
    const { names } = this.scene.topics;
    const other =
      kind === 'of another topic'
        ? { topic: dice.pick(names.filter((name) => name !== lease.topic)) }
        : dice.pick([{ token: lease.token - 1 }, { version: lease.version - 1 }, { id: `${lease.id}x` }]);
    return { text: leaseText({ ...lease, ...other }, leaseKey), record };
  }
}

const forgeries = [
  ...(['no lease', 'past', 'past', 'past', 'of a notifier', 'of a notifier', 'changed'] as const),
  ...(['signed with another key', 'of another topic', 'of another attempt'] as const),
];
type Forgery = (typeof forgeries)[number];
const changedTexts: readonly Forgery[] = ['no lease', 'changed', 'signed with another key'];

const isUncertain = (code: string | undefined) =>
  code !== undefined && ['lost', 'left', 'not_stored', 'unknown', 'unavailable', 'restoring'].includes(code);

function askOf(dice: Dice): LeaseAsk {
  const verb = dice.pick(['ack', 'ack', 'nack', 'bury', 'release', 'extend'] as const);
  if (verb === 'extend') return { verb, ms: 1_000 + dice.below(20_000) };
  return verb === 'nack' ? { verb, delayMs: dice.pick([null, 0, 3_000]) } : { verb };
}

function leaseOf({ key, version, token, failures }: LeaseRecord): PulledLease {
  const slash = key.indexOf('/');
  return {
    topic: key.slice(0, slash),
    id: key.slice(slash + 1),
    version,
    token,
    failures,
    dueAt: 0,
    pulledAt: 0,
  };
}

const otherKeyText = (record: LeaseRecord) => leaseText(leaseOf(record), Buffer.alloc(32, 7));

/** The MAC of another lease, but for its first bytes, before the parts of this one. */
function changed(lease: PulledLease, dice: Dice): string {
  const other = leaseText({ ...lease, failures: lease.failures + 1 }, leaseKey);
  const bytes = Buffer.from(leaseText(lease, leaseKey), 'base64url');
  const kept = dice.pick([0, 1, 8, limits.leaseMacBytes - 1]);
  const wrong = Buffer.from(other, 'base64url').subarray(kept, limits.leaseMacBytes);
  // One byte of another MAC is that of this one in 1 of 256 leases.
  if (wrong.equals(bytes.subarray(kept, limits.leaseMacBytes))) wrong[0] = (wrong[0] ?? 0) ^ 1;
  const parts = bytes.subarray(limits.leaseMacBytes);
  return Buffer.concat([bytes.subarray(0, kept), wrong, parts]).toString('base64url');
}

/** One client: it works on the jobs that it got, and waits for more. */
class Client {
  readonly #name: string;
  readonly #dice: Dice;
  readonly #clients: PullClients;
  /** It dies, and begins again. */
  #life = 0;

  constructor(name: string, dice: Dice, clients: PullClients) {
    this.#name = name;
    this.#dice = dice;
    this.#clients = clients;
  }

  next(): void {
    const dice = this.#dice;
    const { topics } = this.#clients.scene;
    const server = this.#clients.server(dice);
    if (server === null) {
      this.#later(againMs, () => this.next());
      return;
    }
    const ask: PullAsk = {
      topics: dice.chance(0.3) ? [dice.pick(topics.pulled)] : topics.pulled,
      max: dice.pick([1, 1, 2, 10]),
      waitMs: dice.pick([0, 800, 5_000, 20_000]),
      leaseMs: dice.pick([null, null, 1_000, 4_000, 10_000]),
    };
    const request = this.#clients.pull(this.#name, server, ask, (end) => this.#ended(ask, end));
    const leavesSoon = !this.#clients.isCalm && dice.chance(0.15);
    this.#later(leavesSoon ? dice.next() * (ask.waitMs + 20) : ask.waitMs + spareMs, () => request.leave());
  }

  #ended(ask: PullAsk, end: End<readonly PulledItem[]>): void {
    const dice = this.#dice;
    if (end.kind !== 'answered') {
      this.#later(againMs, () => this.next());
      return;
    }
    const held = this.#clients.got(this.#name, ask, end.value);
    if (held.length > 0 && !this.#clients.isCalm && dice.chance(0.08)) this.#die();
    else for (const one of held) this.#work(one);
    this.#later(ask.waitMs === 0 ? 500 + dice.next() * 1_500 : dice.next() * 300, () => this.next());
  }

  #die(): void {
    this.#clients.scene.loop.tell(`Client ${this.#name} dies.`);
    this.#life += 1;
  }

  #work(held: Held): void {
    const dice = this.#dice;
    const leftMs = held.record.ms;
    const inTimeMs = dice.next() * 0.8 * leftMs;
    const send = (ask: LeaseAsk, onDone: () => void = () => {}) =>
      this.#clients.answer(this.#name, dice, held, ask, onDone);
    const ack = () => send({ verb: 'ack' });
    if (this.#clients.isCalm) {
      this.#later(Math.min(300, inTimeMs), ack);
      return;
    }
    const plans: Readonly<Record<Plan, () => void>> = {
      ack: () => this.#later(inTimeMs, ack),
      late: () => this.#later(leftMs + dice.next() * 12_000, ack),
      twice: () => this.#later(inTimeMs, () => send({ verb: 'ack' }, ack)),
      nack: () => this.#later(inTimeMs, () => send({ verb: 'nack', delayMs: null })),
      delay: () => this.#later(inTimeMs, () => send({ verb: 'nack', delayMs: dice.below(8_000) })),
      bury: () => this.#later(inTimeMs, () => send({ verb: 'bury' })),
      release: () =>
        this.#later(inTimeMs, () => {
          const { verdicts } = this.#clients.scene;
          send({ verb: 'release', delayMs: verdicts.releaseWait() });
        }),
      extend: () =>
        this.#later(inTimeMs, () => {
          const ms = 1_000 + dice.below(9_000);
          send({ verb: 'extend', ms }, () => this.#later(dice.next() * ms, ack));
        }),
      silent: () => {},
    };
    plans[dice.pick(usualPlans)]();
  }

  /** Unless it dies before. */
  #later(ms: number, act: () => void): void {
    const life = this.#life;
    this.#clients.scene.loop.after(ms, null, 'client', () => {
      if (life === this.#life) act();
    });
  }
}
