// A simulated process: its identity, and whether it may run and send.

import type { Dice } from '../../scripts/dice.ts';
import type { Immediate, Run } from '../../src/runtime/time.ts';

export interface WaitingImmediate extends Immediate {
  readonly run: Run;
  isCancelled: boolean;
}

export interface ProcessOptions {
  readonly name: string;
  readonly incarnation: number;
  readonly dice: Dice;
  /** virtual ms */
  readonly bornAt: number;
  /** wall clock at its birth, epoch ms */
  readonly wallAtBirth: number;
}

export class Process {
  readonly name: string;
  readonly incarnation: number;
  /** for what its code draws, and for its timers and messages: other processes do not change it */
  readonly dice: Dice;
  readonly bornAt: number;
  readonly wallAtBirth: number;
  isAlive = true;
  /** of the daemon that it belongs to; 0: of none */
  instance = 0;
  /** virtual ms; null: it lives */
  diedAt: number | null = null;
  /** It ends its work: it got a signal, or its master drains it. */
  isLeaving = false;
  /** null: a signal ends it, if anything does */
  exitCode: number | null = null;
  /** a worker of a reload that is not in force */
  isOnTrial = false;
  /** a notifier with the option `standby` */
  isStandby = false;
  /** virtual ms; its events wait until then */
  pausedUntil = 0;
  /** virtual ms of the end of its last pause; it did not run for some time before */
  lastPauseEnd = Number.NEGATIVE_INFINITY;
  /** length of its pauses */
  pausedMs = 0;
  /** It sends so many messages more, and then dies in the middle of its turn. */
  sendsLeft = Number.POSITIVE_INFINITY;
  readonly onDeath: (() => void)[] = [];
  /** of the next turn of its event loop */
  immediates: WaitingImmediate[] = [];
  /** owns the values of processLocal() */
  readonly scope = {};

  constructor({ name, incarnation, dice, bornAt, wallAtBirth }: ProcessOptions) {
    this.name = name;
    this.incarnation = incarnation;
    this.dice = dice;
    this.bornAt = bornAt;
    this.wallAtBirth = wallAtBirth;
  }

  /** In a story: no two processes of a world have the same. */
  get title(): string {
    return `${this.name} #${this.incarnation}`;
  }

  /** `now`: virtual ms */
  pauseUntil(at: number, now: number): void {
    const from = Math.max(this.pausedUntil, now);
    if (at > from) this.pausedMs += at - from;
    this.pausedUntil = Math.max(this.pausedUntil, at);
    this.lastPauseEnd = this.pausedUntil;
  }

  /** Whether a message leaves now. */
  sends(): boolean {
    if (!this.isAlive || this.sendsLeft <= 0) return false;
    this.sendsLeft -= 1;
    return true;
  }
}
