// The operator of a world who requests and stops operations. operation-rules.ts has the rules.

import type { Dice } from '../../scripts/dice.ts';
import type { OperationFilter, OperationKind } from '../../src/core/operation.ts';
import {
  draftOperation,
  type RequestedOperation,
  storeOperation,
} from '../../src/use-cases/request-operation.ts';
import type { Entry } from './ledger.ts';
import type { OperationRules } from './operation-rules.ts';
import type { Receivers } from './receivers.ts';
import type { Scene } from './scene.ts';
import type { Action, Operators, Work } from './works.ts';

const kinds: readonly OperationKind[] = [
  ...(['requeue', 'requeue', 'requeue', 'purge', 'cancel', 'clear', 'run', 'reschedule'] as const),
];
/** virtual ms */
const [firstMs, activeMs] = [6_000, 33_000];

export class OperatorsWork implements Work {
  readonly #scene: Scene;
  readonly #operators: Operators;
  readonly #rules: OperationRules;
  readonly #receivers: Receivers;
  #requested = 0;

  constructor(scene: Scene, operators: Operators, rules: OperationRules, receivers: Receivers) {
    this.#scene = scene;
    this.#receivers = receivers;
    this.#operators = operators;
    this.#rules = rules;
  }

  plan(dice: Dice): readonly Action[] {
    const failures = {
      name: 'failures',
      at: 1_000 + dice.next() * 4_000,
      act: (own: Dice) => this.#fail(own),
    };
    const operations = Array.from({ length: 2 + dice.below(6) }, (_, n) => ({
      name: `operation ${n}`,
      at: firstMs + dice.next() * activeMs,
      act: (own: Dice) => this.#act(own),
    }));
    return [failures, ...operations];
  }

  end(): void {}

  get whyBusy(): string | null {
    const { open } = this.#rules;
    return open.length === 0 ? null : `operations are open: ${open.join(', ')}`;
  }

  checkEnd(): void {
    this.#rules.checkEnd();
  }

  /** The receiver of one topic makes dead letters. */
  #fail(dice: Dice): void {
    const { loop, topics } = this.#scene;
    const topic = dice.pick(topics.names);
    const before = this.#receivers.setMood(topic, 'down');
    loop.after(4_000 + dice.next() * 20_000, null, 'the receiver works', () =>
      this.#receivers.setMood(topic, before),
    );
  }

  #act(dice: Dice): void {
    const { loop, topics } = this.#scene;
    const kind = dice.pick(kinds);
    // Without a topic `clear` needs an administrator.
    const topic = kind === 'clear' || dice.chance(0.7) ? dice.pick(topics.names) : undefined;
    this.#request(kind, topic, dice);
    if (dice.chance(0.25)) {
      const second = dice.pick(kinds);
      loop.after(dice.next() * 1_500, null, 'second operation', () => {
        if (!this.#scene.isCalm()) this.#request(second, topic ?? dice.pick(topics.names), dice);
      });
    }
    if (dice.chance(0.5)) this.#stopSoon(dice);
  }

  #request(kind: OperationKind, topic: string | undefined, dice: Dice): void {
    const { ledger } = this.#scene;
    this.#requested += 1;
    const actor = `operator ${this.#requested}`;
    const isDead = kind === 'requeue' || kind === 'purge';
    const prefix = dice.chance(0.2) ? { idPrefix: 'job ' } : {};
    const state = kind === 'reschedule' && dice.chance(0.5) ? { state: 'ready' as const } : {};
    const filter: OperationFilter = { ...(topic === undefined ? {} : { topic }), ...prefix, ...state };
    const matches = ({ key: _, ...entry }: Entry) =>
      (topic === undefined || entry.topic === topic) &&
      entry.id.startsWith(filter.idPrefix ?? '') &&
      (kind === 'clear' || (entry.state === 'dead') === isDead);
    const named =
      topic !== undefined && dice.chance(0.3)
        ? [...ledger.entries.values()].filter(matches).filter(() => dice.chance(0.7))
        : null;
    const versions =
      named !== null && dice.chance(0.5)
        ? { versions: Object.fromEntries(named.map(({ id, version }) => [id, version])) }
        : {};
    const paced = isDead || dice.chance(0.4);
    const spreadMs = kind === 'requeue' && dice.chance(0.4) ? dice.pick([2_000, 6_000, 15_000]) : null;
    const rate = spreadMs === null && paced && dice.chance(0.4) ? dice.pick([1, 2, 5]) : null;
    const dryRun = dice.chance(0.08);
    const delayMs = dice.below(5_000);
    const isWhole = !dryRun && (isDead || kind === 'cancel' || kind === 'clear');
    const ids = named === null || named.length === 0 ? null : named.map(({ id }) => id);
    const what = JSON.stringify({ ...filter, ids, ...versions, spreadMs, rate, dryRun });
    this.#operators.ask(dice, `${kind} ${what}`, async ({ ctx }) => {
      const now = await ctx.clock.read();
      const listed = ids === null ? null : new Set(ids);
      const isMatch = (entry: Entry) =>
        matches(entry) &&
        (listed === null || listed.has(entry.id)) &&
        (versions.versions === undefined || versions.versions[entry.id] === entry.version);
      this.#rules.asking(actor, isWhole ? [...ledger.entries.values()].filter(isMatch) : []);
      const requested: RequestedOperation = {
        ...{ kind, filter, topics: ['*'], spreadMs, rate, dryRun, actor },
        ...{ at: kind === 'reschedule' ? now + delayMs : null, ids, ...versions },
      };
      const drafted = await draftOperation(ctx.store.admin, requested, now);
      await storeOperation(ctx.registry, drafted);
      return drafted.record.id;
    });
  }

  #stopSoon(dice: Dice): void {
    const { loop, occasions } = this.#scene;
    const stop = () => {
      const { open, paced } = this.#rules;
      if (open.length === 0 || this.#scene.isCalm()) return;
      const id = dice.pick(paced.length > 0 ? paced : open);
      this.#operators.ask(dice, `stop operation ${id}`, async ({ ctx }) => {
        const record = await ctx.registry.stopOperation(id, await ctx.clock.read());
        return record?.state ?? 'absent';
      });
    };
    if (dice.chance(0.5)) loop.after(dice.next() * 3_000, null, 'stop', stop);
    else
      occasions.add('work', (step) => {
        if (step !== 'move') return false;
        loop.after(dice.next() * 4, null, 'stop', stop);
        return true;
      });
  }
}
