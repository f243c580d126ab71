// Records the incidents of this instance: the start and the end of each failure state, once, in a log line
// and a file. It is the outbox of their mails: a key is a failure state (`crash_loop notifier`) or a kind of
// them, and the window of a key is found in its files.
// Invariant: begin() and end() take effect even if the disk takes no file: a full disk is one of the failure
// states.

import { type Incident, openIncidents } from '../../core/incident.ts';
import type { SettledAlert } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import { oneLine } from '../../mail/mail-text.ts';
import { type IncidentFiles, newIncident } from '../../process/incident-files.ts';
import { FailureLog } from '../../runtime/failure-log.ts';
import { wallNow } from '../../runtime/time.ts';
import type { Log } from '../../telemetry/log.ts';
import { upkeepLimits } from '../limits.ts';
import type { Alert, Outbox } from './mailer.ts';

type FailureState = Pick<Incident, 'kind' | 'about'>;

const keyOf = ({ kind, about }: FailureState) => `${kind} ${about}`.trim();

/** Topics and receivers may be many: their incidents share mails, and take at most half of the files. */
const isShared = ({ kind }: FailureState) => kind === 'failing' || kind === 'paused';

const mailKeyOf = (failure: FailureState) => (isShared(failure) ? failure.kind : keyOf(failure));

export class Incidents implements Outbox<Incident & Alert> {
  readonly #files: Pick<IncidentFiles, keyof IncidentFiles>;
  readonly #log: Log;
  /** by id, oldest first; an incident that changes is replaced */
  readonly #known = new Map<number, Incident>();
  /** by key: the starts of the failure states that last */
  readonly #open = new Map<string, Incident>();
  readonly #written = new WeakSet<Incident>();
  #writing: Promise<void> = Promise.resolve();
  readonly #writeFailures: FailureLog;

  constructor(files: Pick<IncidentFiles, keyof IncidentFiles>, log: Log) {
    this.#files = files;
    this.#log = log;
    this.#writeFailures = new FailureLog(log, {
      failure: 'incidents: cannot write an incident file',
      end: 'incidents: incident files are written again',
    });
  }

  /** Reads the incidents that earlier processes have recorded. */
  async load(): Promise<void> {
    for (const incident of await this.#files.list()) {
      this.#known.set(incident.id, incident);
      this.#written.add(incident);
    }
    for (const start of openIncidents([...this.#known.values()])) this.#open.set(keyOf(start), start);
  }

  /** The starts of the failure states that last. */
  open(): readonly Incident[] {
    return [...this.#open.values()];
  }

  /** Whether a mail about this failure state is still to be sent. */
  isOwed(failure: FailureState): boolean {
    return this.#owed().some((incident) => keyOf(incident) === keyOf(failure));
  }

  /** No-op while the failure state lasts. */
  async begin(
    failure: FailureState,
    detail: string,
    facts: Pick<Incident, 'oldest' | 'topic' | 'waiting'> = {},
  ): Promise<void> {
    if (this.isOpen(failure)) return;
    this.#log.error(detail, undefined, { incident: keyOf(failure) });
    await this.#add({ ...failure, ...facts, state: 'begun', detail });
  }

  /** No-op unless the failure state lasts. */
  async end(failure: FailureState, detail: string): Promise<void> {
    const start = this.#open.get(keyOf(failure));
    if (start === undefined) return;
    this.#log.notice(detail, { incident: keyOf(failure) });
    await this.#add({ ...failure, state: 'over', detail, since: start.at });
  }

  /** Writes new and changed incidents, one file after the other. Never rejects: files that the disk rejects
   *  are written again at each look. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      try {
        for (const incident of this.#known.values()) {
          if (this.#written.has(incident)) continue;
          await this.#files.write(incident);
          this.#written.add(incident);
        }
        this.#writeFailures.succeeded();
      } catch (error) {
        this.#writeFailures.failed(error);
      }
    });
    return this.#writing;
  }

  // Outbox

  async due(windowMs: number): Promise<readonly string[]> {
    await this.flush();
    const now = wallNow();
    // A mail from the future: the clock was set back.
    const mailed = [...this.#known.values()].filter(
      ({ sentAt }) => sentAt !== null && sentAt <= now && now - sentAt < windowMs,
    );
    const inWindow = new Set(mailed.map(mailKeyOf));
    return [...new Set(this.#owed().map(mailKeyOf))].filter((key) => !inWindow.has(key));
  }

  /** This process is the only one that mails incidents. */
  async claim(key: string): Promise<readonly (Incident & Alert)[]> {
    const owed = this.#owed().filter((incident) => mailKeyOf(incident) === key);
    return owed.map((incident) => ({ ...incident, version: incident.id }));
  }

  async settle(ids: readonly number[], as: SettledAlert): Promise<void> {
    if (as === 'owed') return;
    const sentAt = as === 'sent' ? wallNow() : null;
    for (const id of ids) {
      const incident = this.#known.get(id);
      if (incident?.alert === 'owed') this.#known.set(id, { ...incident, alert: as, sentAt });
    }
    await this.flush();
  }

  isOpen(failure: FailureState): boolean {
    return this.#open.has(keyOf(failure));
  }

  #owed(): readonly Incident[] {
    return [...this.#known.values()].filter(({ alert }) => alert === 'owed');
  }

  async #add(facts: Parameters<typeof newIncident>[0]): Promise<void> {
    const detail = oneLine(facts.detail, limits.logValueMax);
    const incident = newIncident({ ...facts, detail }, this.#known.keys());
    this.#known.set(incident.id, incident);
    if (incident.state === 'begun') this.#open.set(keyOf(incident), incident);
    else this.#open.delete(keyOf(incident));
    await this.flush();
    await this.#dropOldest();
  }

  /** Keeps the failure states that last: their end must be mailed, and their start must not be mailed
   *  again. */
  async #dropOldest(): Promise<void> {
    const open = new Set([...this.#open.values()].map(({ id }) => id));
    const all = [...this.#known.values()];
    const hasManyShared = all.filter(isShared).length > upkeepLimits.incidentsKept / 2;
    const urgency = (incident: Incident) =>
      (incident.alert === 'owed' ? 2 : 0) + (hasManyShared && isShared(incident) ? 0 : 1);
    const closed = all.filter(({ id }) => !open.has(id)).sort((a, b) => urgency(a) - urgency(b));
    for (const { id } of closed.slice(0, Math.max(0, all.length - upkeepLimits.incidentsKept))) {
      this.#known.delete(id);
      // A file that stays is read at the next start and dropped then.
      await this.#files.remove(id).catch(() => undefined);
    }
  }
}
