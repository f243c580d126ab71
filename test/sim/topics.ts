// The topics of a world, in place of those of the registry (registry.ts).

import type { Dice } from '../../scripts/dice.ts';
import { outcomeFields } from '../../src/core/topic/outcome-topics.ts';
import { unusedBy } from '../../src/core/topic/settings.ts';
import { asKnown, type Topic, type TopicState, topicDefaults } from '../../src/core/topic/topic.ts';
import type { NamingTopic, Registry, TopicRecord } from '../../src/ports/registry.ts';

/** A process has read a changed topic. */
export const topicsKnownMs = 7_000;
/** Share of the worlds with pull clients. */
const pulledShare = 0.5;
/** Share of the worlds with outcome topics: with one of the others a chain of four. */
const chainedShare = 0.4;
const chainTopics = ['c1', 'c2', 'c3'] as const;
const secret = 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw';

export class TopicTable {
  readonly #topics = new Map<string, Topic>();
  /** by name: all settings that a topic ever had, oldest first */
  readonly #versions = new Map<string, { readonly at: number; readonly topic: Topic }[]>();
  /** by name: virtual ms of the last change */
  readonly #changedAt = new Map<string, number>();
  /** by name of a removed topic: revision of its removal */
  readonly #removed = new Map<string, number>();
  readonly #everRemoved = new Set<string>();
  readonly #now: () => number;
  #revision = 1;
  #isCalm = false;
  /** No fault keeps a process from reading the registry: it knows each change soon. */
  isReadSoon = false;
  /** It answered no call at some time, so a process may know no topic. */
  wasAway = false;
  #isAway = false;
  /** virtual ms; since when it answers again */
  #answersFrom = 0;
  /** what the registry knows about them */
  readonly registry: Pick<
    Registry,
    'changes' | 'read' | 'get' | 'turn' | 'create' | 'update' | 'remove' | 'namedBy' | 'onChange'
  > = {
    changes: async (after) => {
      const changed = [...this.#topics.values()].filter(
        ({ topic, revision }) => revision > after.revision && !this.#removed.has(topic),
      );
      const removed = [...this.#removed].map(([name, revision]) => ({ name, revision }));
      const deleted = removed.filter(({ revision }) => revision > after.revision);
      return { revision: this.#revision, topics: changed.map(recordOf), deleted, next: null };
    },
    read: (record) => asKnown(JSON.parse(record.settings) as Topic),
    get: async (name) => this.#known(name),
    create: async ({ topic: name }) => {
      if (!this.isRemoved(name)) return { kind: 'exists' };
      return { kind: 'created', topic: this.#restore(name) };
    },
    update: async (draft, expected) => {
      const old = this.#known(draft.topic);
      if (old === null) return { kind: 'absent' };
      if (old.revision !== expected || this.#isCalm) return { kind: 'changed' };
      this.#revision += 1;
      const { createdAt, updatedAt } = old;
      const topic: Topic = { ...draft, createdAt, updatedAt, revision: this.#revision };
      this.#set(topic);
      return { kind: 'updated', topic };
    },
    remove: async (name, expected) => {
      const old = this.#known(name);
      if (old === null) return 'absent';
      if (old.revision !== expected || this.#isCalm) return 'changed';
      if (this.#namedBy(name) !== null) return 'in_use';
      this.#revision += 1;
      this.#set({ ...old, state: 'offline', revision: this.#revision });
      this.#removed.set(name, this.#revision);
      this.#everRemoved.add(name);
      return 'removed';
    },
    turn: async (name, state) => {
      if (this.isRemoved(name)) return { kind: 'absent' };
      return this.#isCalm ? { kind: 'changed' } : { kind: 'updated', revision: this.#turn(name, state) };
    },
    namedBy: async (name) => this.#namedBy(name),
    onChange: () => () => {},
  };

  /** names of those that clients pulled at first: an edit can change the delivery */
  readonly pulled: readonly string[];

  /** @param pull decides whether clients pull some topics, and which settings these have
   *  @param chain decides whether each job is followed by those of a chain of topics
   *  @param now virtual ms */
  constructor(dice: Dice, pull: Dice, chain: Dice, now: () => number) {
    this.#now = now;
    const count = 1 + dice.below(3);
    for (let n = 0; n < count; n += 1) this.#add(`t${n}`, dice);
    const pulled = pull.chance(pulledShare) ? 1 + pull.below(2) : 0;
    this.pulled = Array.from({ length: pulled }, (_, n) => `pull${n}`);
    for (const name of this.pulled) this.#add(name, pull, pulledSettingsOf(pull));
    if (!chain.chance(chainedShare)) return;
    for (const name of this.names)
      this.#set({ ...this.get(name), onDone: chainTopics[0], onDead: chain.pick(chainTopics) });
    for (const [n, name] of chainTopics.entries()) {
      const next = chainTopics[n + 1] ?? '';
      this.#add(name, chain, { onDone: next, onDead: next });
    }
  }

  /** The registry answers no call. */
  get isAway(): boolean {
    return this.#isAway;
  }

  set isAway(isAway: boolean) {
    if (this.#isAway && !isAway) this.#answersFrom = this.#now();
    this.#isAway = isAway;
    this.wasAway ||= isAway;
  }

  get names(): readonly string[] {
    return [...this.#topics.keys()];
  }

  /** The last one of a removed topic has its last settings. */
  get(name: string): Topic {
    const topic = this.#topics.get(name);
    if (topic === undefined) throw new Error(`the world has no topic ${name}`);
    return topic;
  }

  isRemoved(name: string): boolean {
    return this.#removed.has(name);
  }

  wasRemoved(name: string): boolean {
    return this.#everRemoved.has(name);
  }

  /** What a process may know about a topic: one that stands still, or whose calls fail, knows its past. */
  possible(name: string): readonly Topic[] {
    const versions = this.#versions.get(name) ?? [];
    if (!this.isReadSoon) return versions.map(({ topic }) => topic);
    const since = this.#now() - topicsKnownMs;
    const [last] = versions.filter(({ at }) => at <= since).slice(-1);
    const late = versions.filter(({ at }) => at > since);
    return [...(last === undefined ? [] : [last]), ...late].map(({ topic }) => topic);
  }

  /** Each process knows that the topic gets no calls. */
  isKnownClosed(name: string): boolean {
    return this.isReadSoon && this.possible(name).every(({ state }) => state !== 'active');
  }

  /** Active, without a rate, and unchanged since this virtual ms in a registry that has answered since. */
  isSteady(name: string, since: number): boolean {
    const { state, rate } = this.get(name);
    const from = Math.max(this.#changedAt.get(name) ?? 0, this.#answersFrom);
    return state === 'active' && rate === 0 && !this.#isAway && from <= since;
  }

  /** Another operator changes settings of a topic. */
  edit(name: string, dice: Dice): void {
    this.#revision += 1;
    const edited = { ...this.get(name), ...settingsOf(dice), revision: this.#revision };
    if (!this.pulled.includes(name)) this.#set(edited);
    else this.#set({ ...edited, ...pulledSettingsOf(dice), delivery: dice.pick(['pull', 'pull', 'push']) });
  }

  /** Makes every topic active. A turn that was sent before and arrives later changes nothing. */
  calm(): void {
    for (const name of this.names)
      if (this.isRemoved(name)) this.#restore(name);
      else if (this.get(name).state !== 'active') this.#turn(name, 'active');
    this.#isCalm = true;
    this.isAway = false;
  }

  #namedBy(name: string): NamingTopic | null {
    for (const topic of this.names)
      for (const field of outcomeFields)
        if (!this.isRemoved(topic) && topic !== name && this.get(topic)[field] === name)
          return { topic, field };
    return null;
  }

  #known(name: string): Topic | null {
    return this.isRemoved(name) ? null : this.get(name);
  }

  #restore(name: string): Topic {
    this.#removed.delete(name);
    this.#turn(name, 'active');
    return this.get(name);
  }

  #turn(name: string, state: TopicState): number {
    this.#revision += 1;
    const { removal: _ended, ...topic } = this.get(name);
    this.#set({ ...topic, state, revision: this.#revision });
    return this.#revision;
  }

  #set(topic: Topic): void {
    const { topic: name } = topic;
    const at = this.#now();
    const fitting = withoutUnused(topic);
    this.#topics.set(name, fitting);
    this.#changedAt.set(name, at);
    this.#versions.set(name, [...(this.#versions.get(name) ?? []), { at, topic: fitting }]);
  }

  #add(topic: string, dice: Dice, more: Partial<Topic> = {}): void {
    const added: Topic = {
      ...topicDefaults,
      topic,
      state: 'active',
      secrets: [{ secret, untilAt: null }],
      ...settingsOf(dice),
      deadIf: '{res.code}=="E_ARG"',
      ...more,
      priority: dice.pick(['high', 'normal', 'low'] as const),
      alertEmails: topic === 't1' ? ['t1@team.test'] : [],
      revision: this.#revision,
      createdAt: 0,
      updatedAt: 0,
    };
    this.#set(added);
    this.#revision += 1;
  }
}

function settingsOf(
  dice: Dice,
): Pick<Topic, 'timeoutMs' | 'maxAttempts' | 'concurrency' | 'rate' | 'jitter'> {
  return {
    timeoutMs: dice.pick([500, 2_000, 10_000]),
    maxAttempts: dice.pick([1, 2, 3, 5]),
    concurrency: dice.pick([1, 2, 8, 64]),
    rate: dice.pick([0, 0, 0, 5]),
    jitter: dice.pick([0, 0, 0.5]),
  };
}

/** As dq stores it: it rejects changes of a topic with settings that its delivery does not use. */
function withoutUnused(topic: Topic): Topic {
  const unused = unusedBy(topic.delivery).map((name) => [name, topicDefaults[name]]);
  return { ...topic, callbackUrl: `http://receiver/${topic.topic}`, ...Object.fromEntries(unused) };
}

function pulledSettingsOf(dice: Dice): Pick<Topic, 'delivery' | 'leaseMs'> {
  return { delivery: 'pull', leaseMs: dice.pick([1_000, 3_000, 8_000]) };
}

function recordOf(topic: Topic): TopicRecord {
  const { topic: name, state, revision, createdAt, updatedAt } = topic;
  return { name, state, settings: JSON.stringify(topic), secrets: '', revision, createdAt, updatedAt };
}
