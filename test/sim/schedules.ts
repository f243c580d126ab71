// The operator of a world who creates, changes, pauses and removes schedules. ticks.ts has the rules.

import type { Dice } from '../../scripts/dice.ts';
import type { ScheduleRecord, StoredSchedule } from '../../src/core/schedule.ts';
import {
  changedSchedule,
  getSchedule,
  newSchedule,
  nextOf,
  type ScheduleInput,
} from '../../src/use-cases/change-schedule.ts';
import type { Process } from './process.ts';
import type { Server } from './roles.ts';
import type { Scene } from './scene.ts';
import type { Ticks } from './ticks.ts';
import type { Action, Operators, Work } from './works.ts';

const names = ['s0', 's1', 's2'];
/** virtual ms */
const activeMs = 36_000;
const againMs = 1_000;
/** An operator may write so long after reading the clock: then an instant is late by this much, too. */
const waitMsMax = 1_000;
/** Ticks go on after the faults, until no fault has an effect. */
const lingerMs = 40_000;

export class Schedules implements Work {
  readonly #scene: Scene;
  readonly #operators: Operators;
  readonly #ticks: Ticks;
  readonly #dice: Dice;
  #versions = 0;
  #isEnding = false;

  constructor(scene: Scene, operators: Operators, ticks: Ticks) {
    this.#scene = scene;
    this.#operators = operators;
    this.#ticks = ticks;
    this.#dice = scene.loop.stream('schedules end');
  }

  plan(dice: Dice): readonly Action[] {
    const count = 4 + dice.below(12);
    const first = { name: 'schedule 0', at: 300, act: (own: Dice) => this.#create(names[0] ?? '', own) };
    const others = Array.from({ length: count }, (_, n) => ({
      name: `schedule ${n + 1}`,
      at: 1_000 + dice.next() * activeMs,
      act: (own: Dice) => this.#act(own),
    }));
    return [first, ...others];
  }

  end(): void {
    const { loop } = this.#scene;
    loop.after(lingerMs, null, 'the schedules end', () => {
      this.#isEnding = true;
      this.#removeAll();
    });
  }

  get whyBusy(): string | null {
    if (!this.#isEnding) return 'schedules go on';
    const left = this.#ticks.living;
    return left.length === 0 ? null : `schedules are left: ${left.join(', ')}`;
  }

  checkEnd(): void {
    this.#ticks.checkEnd();
  }

  /** Goes on to the end of the world: a process that stood still may create a schedule after the others
   *  ended. */
  #removeAll(): void {
    for (const name of this.#ticks.living) this.#remove(name, this.#dice);
    this.#scene.loop.after(againMs, null, 'the schedules end', () => this.#removeAll());
  }

  /** Some changes wait until dq-upkeep has claimed an instant, and not made it yet. */
  #act(dice: Dice): void {
    const { loop, occasions } = this.#scene;
    const name = dice.pick(names);
    const act = () => {
      if (!this.#ticks.living.includes(name)) this.#create(name, dice);
      else if (dice.chance(0.15)) this.#remove(name, dice);
      else if (dice.chance(0.3))
        this.#change(name, dice, (old, now) => changedSchedule(old, { paused: !old.isPaused }, now));
      else {
        const input = this.#inputOf(dice, name, dice.chance(0.4));
        this.#change(name, dice, (old, now) => changedSchedule(old, input, now));
      }
    };
    if (dice.chance(0.5)) act();
    else
      occasions.add('work', (step) => {
        if (step !== 'claim') return false;
        loop.after(dice.next() * 4, null, 'change of a claimed schedule', () => {
          if (!this.#scene.isCalm()) act();
        });
        return true;
      });
  }

  #create(name: string, dice: Dice): void {
    const input = { topic: dice.pick(this.#scene.topics.names), ...this.#inputOf(dice, name, true) };
    const missed = dice.pick(['skip', 'last'] as const);
    this.#operators.ask(dice, `create schedule ${name} ${JSON.stringify(input)}`, async ({ ctx }) => {
      const now = await ctx.clock.read();
      const record = newSchedule(name, { ...input, missed }, 'UTC', now);
      return ctx.registry.createSchedule(record, nextOf(record, now));
    });
  }

  #change(name: string, dice: Dice, next: (old: StoredSchedule, now: number) => ScheduleRecord | null): void {
    this.#operators.ask(dice, `change schedule ${name}`, async ({ ctx, process }: Server) => {
      const old = await getSchedule(ctx.registry, name);
      const now = await ctx.clock.read();
      if (dice.chance(0.4)) await this.#untilClaimed(process, dice);
      const record = next(old, now);
      if (record === null) return 'unchanged';
      const { cron, everyMs, timezone, isPaused, topic, body } = record;
      const outcome = await ctx.registry.updateSchedule(record, nextOf(record, now), now);
      return `${outcome} ${JSON.stringify({ cron, everyMs, timezone, isPaused, topic, body })}`;
    });
  }

  /** dq-upkeep has claimed an instant since the operator read the schedule. */
  #untilClaimed(process: Process, dice: Dice): Promise<void> {
    const { loop, occasions } = this.#scene;
    const waitMs = dice.next() * dice.pick([3, 60]);
    return new Promise((resolve) => {
      loop.after(waitMsMax, process, 'no claim', resolve);
      occasions.add('work', (step) => {
        if (step === 'claim') loop.after(waitMs, process, 'claim', resolve);
        return step === 'claim';
      });
    });
  }

  #remove(name: string, dice: Dice): void {
    this.#operators.ask(dice, `remove schedule ${name}`, ({ ctx }) => ctx.registry.removeSchedule(name));
  }

  /** The body names the version. */
  #inputOf(dice: Dice, name: string, withTimes: boolean): ScheduleInput {
    this.#versions += 1;
    const content = { body: `${name}-${this.#versions};`, contentType: 'text/plain' };
    const topic = dice.chance(0.3) ? { topic: dice.pick(this.#scene.topics.names) } : {};
    const missed = dice.chance(0.2) ? { missed: dice.pick(['skip', 'last'] as const) } : {};
    if (!withTimes) return { ...content, ...topic, ...missed };
    const timezone = dice.pick(['UTC', 'Asia/Kolkata', 'America/New_York', 'Pacific/Chatham']);
    const times = dice.chance(0.7)
      ? { every: dice.pick(['1s', '2s', '3s', '5s', '7s', '20s', '61s']) }
      : { cron: dice.pick(['* * * * *', '* * * * *', '*/2 * * * *', '30 * * * *', '15 14 * * *']), timezone };
    return { ...content, ...topic, ...missed, ...times };
  }
}
