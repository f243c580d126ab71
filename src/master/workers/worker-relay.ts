// Relays messages between workers: counters to dq-upkeep, the list of living processes, the process table,
// questions and answers, and the trial of the console to the notifiers.
// Keeps at most limits.countersHeldMax counters while dq-upkeep is unavailable. Starts and ends no worker.

import { limits } from '../../core/limits.ts';
import type { ProcessInfo, RoleName, ToMaster, ToWorker } from '../../process/messages.ts';
import type { AnswerOf } from '../../process/questions.ts';
import { titleOf } from '../../process/role.ts';
import { StatBuffer } from '../../process/senders.ts';
import { clearTimeout, setTimeout, type Timer } from '../../runtime/time.ts';
import type { Log } from '../../telemetry/log.ts';
import { masterLimits } from '../limits.ts';
import type { Fleet } from './fleet.ts';
import type { WorkerProcess } from './worker-process.ts';
import type { WorkerSlot } from './worker-slot.ts';

export class WorkerRelay {
  readonly #held = new StatBuffer(limits.countersHeldMax);
  readonly #asks = new AskRelay();
  readonly #fleet: Fleet;
  readonly #processes: () => readonly ProcessInfo[];
  readonly #log: Log;
  /** null: no trial runs */
  #trial: { readonly from: WorkerProcess; readonly port: number } | null = null;

  constructor(fleet: Fleet, processes: () => readonly ProcessInfo[], log: Log) {
    this.#fleet = fleet;
    this.#processes = processes;
    this.#log = log;
  }

  /** Handles a worker's message; ignores messages of other kinds. */
  receive(from: WorkerProcess, message: ToMaster): void {
    switch (message.kind) {
      case 'ready':
        if (from === this.#upkeep()) this.#sendHeld(from);
        if (from.role === 'notifier' && this.#trial !== null)
          from.send({ kind: 'trial', port: this.#trial.port });
        break;
      case 'counters': {
        const upkeep = this.#upkeep();
        if (upkeep !== undefined) {
          this.#sendHeld(upkeep);
          upkeep.send({ kind: 'counters', deltas: message.deltas });
        } else for (const delta of message.deltas) this.#held.addDelta(delta);
        break;
      }
      case 'attempts':
        this.#upkeep()?.send({ kind: 'attempts', attempts: message.attempts });
        break;
      case 'observed':
        this.#upkeep()?.send({ kind: 'observed', topics: message.topics });
        break;
      case 'failing':
        this.#upkeep()?.send({ kind: 'failing', news: message.news });
        break;
      case 'who_lives':
        from.send({ kind: 'living', ...this.#living() });
        break;
      case 'trial':
        if (message.port !== null) this.#setTrial({ from, port: message.port });
        else this.consoleDied(from);
        break;
      case 'processes':
        from.send({ kind: 'processes', call: message.call, processes: this.#processes() });
        break;
      case 'ask': {
        const workers = this.#fleet.current.workers(message.to).filter(({ state }) => state === 'ready');
        this.#asks.ask(from, message, workers);
        break;
      }
      case 'answer':
        this.#asks.answered(from, message);
        break;
      default:
    }
  }

  /** dq-upkeep releases the leases before they expire. If it is unavailable it asks `who_lives` after its
   *  start. */
  notifierDied(incarnation: number): void {
    this.#upkeep()?.send({ kind: 'owner_dead', incarnation });
  }

  /** Ends the trial of this console. In a reload another one may have begun its own. */
  consoleDied(worker: WorkerProcess): void {
    if (this.#trial?.from === worker) this.#setTrial(null);
  }

  #setTrial(trial: { readonly from: WorkerProcess; readonly port: number } | null): void {
    this.#trial = trial;
    const port = trial?.port ?? null;
    for (const notifier of this.#fleet.workers('notifier')) notifier.send({ kind: 'trial', port });
  }

  /** Lost while dq-upkeep is unavailable; the next death sends it again. */
  crashLoop(role: RoleName, how: string, reason: string): void {
    this.#upkeep()?.send({ kind: 'crash_loop', role, how, reason });
  }

  /** The daemon gives up. Without dq-upkeep the master records it (keepGivenUp). */
  gaveUp(reason: string): void {
    this.#upkeep()?.send({ kind: 'gave_up', reason });
  }

  /** Of the generation in force: a leaving one may have flushed for the last time. */
  #upkeep(): WorkerProcess | undefined {
    return this.#fleet.current.workers('upkeep').find((worker) => worker.state !== 'starting');
  }

  /** Of all generations, and the next incarnation of each slot: a notifier that starts while dq-upkeep works
   *  on the answer must not lose its leases. */
  #living(): Pick<Extract<ToWorker, { kind: 'living' }>, 'incarnations' | 'processes'> {
    const generations = this.#fleet.all();
    const slots = generations.flatMap((generation) => generation.slots);
    const incarnationsOf = ({ worker, nextIncarnation }: WorkerSlot) =>
      worker === null ? [nextIncarnation] : [worker.incarnation, nextIncarnation];
    return {
      incarnations: slots.filter(({ role }) => role === 'notifier').flatMap(incarnationsOf),
      processes: generations.flatMap(({ config, slots: own }) =>
        own.flatMap((slot) => {
          const title = titleOf(slot.role, slot.index, config);
          return incarnationsOf(slot).map((incarnation) => [incarnation, title] as const);
        }),
      ),
    };
  }

  #sendHeld(upkeep: WorkerProcess): void {
    const deltas = this.#held.take();
    if (deltas.length > 0) upkeep.send({ kind: 'counters', deltas });
    const dropped = this.#held.takeDropped();
    if (dropped > 0)
      this.#log.error('relay: dropped statistics while dq-upkeep was unavailable', undefined, { dropped });
  }
}

type Ask = Extract<ToMaster, { readonly kind: 'ask' }>;
type Answer = Extract<ToMaster, { readonly kind: 'answer' }>;

interface OpenAsk {
  /** null: no answer yet */
  readonly answers: Map<WorkerProcess, AnswerOf<unknown> | null>;
  readonly timer: Timer;
  readonly from: WorkerProcess;
  readonly call: number;
}

/** Passes questions of servers and the console to the notifiers or to dq-upkeep of this instance, and returns
 *  all answers to the process that asked. A process that does not answer in time is reported with null.
 *  Invariant: at most masterLimits.asksMax questions are open, and none longer than masterLimits.askMsMax;
 *  further ones get no answer. */
export class AskRelay {
  readonly #open = new Map<number, OpenAsk>();
  #last = 0;

  /** `workers`: ready processes of the asked role. */
  ask(from: WorkerProcess, { call, question, waitMs, toOne }: Ask, workers: readonly WorkerProcess[]): void {
    if (this.#open.size >= masterLimits.asksMax) return;
    this.#last += 1;
    const id = this.#last;
    // One after the other: a silent process does not get every question.
    const asked = toOne === true && workers.length > 0 ? [workers[id % workers.length]] : workers;
    const longestMs = Math.min(waitMs ?? masterLimits.askMs, masterLimits.askMsMax);
    const timer = setTimeout(() => this.#end(id), longestMs);
    const answers = new Map((asked as readonly WorkerProcess[]).map((worker) => [worker, null]));
    this.#open.set(id, { answers, timer, from, call });
    if (answers.size === 0) this.#end(id);
    const message: ToWorker = { kind: 'ask', call: id, question };
    for (const worker of answers.keys()) worker.send(message);
  }

  answered(from: WorkerProcess, { call, answer }: Answer): void {
    const answers = this.#open.get(call)?.answers;
    if (answers?.get(from) !== null) return;
    answers.set(from, { process: from.title, answer });
    if (![...answers.values()].includes(null)) this.#end(call);
  }

  #end(id: number): void {
    const ask = this.#open.get(id);
    if (ask === undefined) return;
    const { answers, timer, from, call } = ask;
    clearTimeout(timer);
    this.#open.delete(id);
    const all = Array.from(answers, ([{ title }, given]) => given ?? { process: title, answer: null });
    from.send({ kind: 'answers', call, answers: all });
  }
}
