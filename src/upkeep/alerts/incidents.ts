// The troubles of this instance: begun, over, mailed. Owns their files and decides what is news: a trouble that goes on is
// told once. A source of alerts whose keys are troubles (`crash_loop notifier`); the window of a key is found in its files.
// Invariant: an incident is known here at the latest when begin() or end() resolves, also where the disk takes no file:
// a full disk is one of the troubles.

import { formatInstant } from '../../core/duration.ts';
import { limits } from '../../core/limits.ts';
import { mailLimits } from '../../mail/limits.ts';
import { letter, line, type Sender } from '../../mail/mail-text.ts';
import {
  type Incident,
  type IncidentFiles,
  newIncident,
  openIncidents,
} from '../../process/incident-files.ts';
import type { Log } from '../../telemetry/log.ts';
import { upkeepLimits } from '../limits.ts';
import type { AlertSource, Owed } from './alert-source.ts';

type Trouble = Pick<Incident, 'kind' | 'about'>;

const keyOf = ({ kind, about }: Trouble) => `${kind} ${about}`.trim();

export class Incidents implements AlertSource {
  readonly name = 'incidents';
  readonly #files: IncidentFiles;
  readonly #log: Log;
  readonly #sender: Sender;
  /** by id, oldest first */
  #known = new Map<number, Incident>();
  readonly #unsaved = new Set<number>();
  #saving: Promise<void> = Promise.resolve();
  #saveFailing = false;

  constructor(files: IncidentFiles, log: Log, sender: Sender) {
    this.#files = files;
    this.#log = log;
    this.#sender = sender;
  }

  /** Reads what an earlier process has left. */
  async load(): Promise<void> {
    this.#known = new Map((await this.#files.list()).map((incident) => [incident.id, incident]));
  }

  /** The troubles that go on. */
  open(): readonly Incident[] {
    return openIncidents([...this.#known.values()]);
  }

  isOpen(trouble: Trouble): boolean {
    return this.open().some((incident) => keyOf(incident) === keyOf(trouble));
  }

  /** Somebody is still to be told of it. */
  isOwed(trouble: Trouble): boolean {
    return [...this.#known.values()].some(
      (incident) => incident.alert === 'owed' && keyOf(incident) === keyOf(trouble),
    );
  }

  async begin(trouble: Trouble, detail: string): Promise<void> {
    if (this.isOpen(trouble)) return;
    this.#log.error(detail, undefined, { incident: keyOf(trouble) });
    await this.#add(trouble, 'begun', detail);
  }

  async end(trouble: Trouble, detail: string): Promise<void> {
    if (!this.isOpen(trouble)) return;
    this.#log.notice(detail, { incident: keyOf(trouble) });
    await this.#add(trouble, 'over', detail);
  }

  async #add({ kind, about }: Trouble, state: Incident['state'], detail: string): Promise<void> {
    const text = line(detail, limits.logValueMax);
    const incident = newIncident({ kind, about, state, detail: text }, this.#known.keys());
    this.#known.set(incident.id, incident);
    await this.#save([incident.id]);
    await this.#dropOldest();
  }

  /** Resolves when what can be kept is kept. */
  flush(): Promise<void> {
    return this.#save([]);
  }

  // AlertSource

  async due(windowMs: number): Promise<readonly string[]> {
    await this.flush();
    const all = [...this.#known.values()];
    const now = Date.now();
    const inWindow = (key: string) =>
      all.some(({ sentAt, ...trouble }) => {
        const age = sentAt === null ? -1 : now - sentAt;
        return keyOf(trouble) === key && age >= 0 && age < windowMs;
      });
    const owed = new Set(all.filter(({ alert }) => alert === 'owed').map(keyOf));
    return [...owed].filter((key) => !inWindow(key));
  }

  /** alerts.emails alone: no topic is concerned more than another. */
  async addresses(): Promise<readonly string[]> {
    return [];
  }

  async take(key: string): Promise<Owed> {
    const owed = [...this.#known.values()].filter(
      (incident) => incident.alert === 'owed' && keyOf(incident) === key,
    );
    return {
      ids: owed.map(({ id }) => id),
      names: [],
      isCut: false,
      letter: (ids) => {
        const told = owed.filter(({ id }) => ids.has(id));
        const shown = told.slice(-mailLimits.alertsShown);
        return letter(
          told.at(-1)?.detail ?? key,
          shown.map(({ at, detail }) => `${formatInstant(at)}  ${detail}`),
          this.#sender,
        );
      },
      settle: async (ids, as) => {
        if (as === 'owed') return;
        for (const id of ids) {
          const incident = this.#known.get(id);
          const sentAt = as === 'sent' ? Date.now() : null;
          if (incident?.alert === 'owed') this.#known.set(id, { ...incident, alert: as, sentAt });
        }
        await this.#save(ids);
      },
    };
  }

  /** Never rejects: what the disk does not take now is tried again at every look. One after the other. */
  #save(ids: readonly number[]): Promise<void> {
    for (const id of ids) this.#unsaved.add(id);
    if (this.#unsaved.size > 0) this.#saving = this.#saving.then(() => this.#saveAll());
    return this.#saving;
  }

  async #saveAll(): Promise<void> {
    try {
      for (const id of [...this.#unsaved]) {
        this.#unsaved.delete(id);
        const incident = this.#known.get(id);
        if (incident === undefined) continue;
        try {
          await this.#files.write(incident);
        } catch (error) {
          this.#unsaved.add(id);
          throw error;
        }
      }
      this.#saveFailing = false;
    } catch (error) {
      if (!this.#saveFailing) this.#log.error('an incident cannot be kept in the data directory', error);
      this.#saveFailing = true;
    }
  }

  /** Never one that goes on: its end would be told to nobody, and its beginning once more. */
  async #dropOldest(): Promise<void> {
    const goOn = new Set(this.open());
    const over = [...this.#known.values()].filter((incident) => !goOn.has(incident));
    const settled = over.filter(({ alert }) => alert !== 'owed');
    const order = [...settled, ...over].map(({ id }) => id);
    for (const id of order) {
      if (this.#known.size <= upkeepLimits.incidentsKept) return;
      if (!this.#known.delete(id)) continue;
      // Left behind, it is read again at the next start and dropped then.
      await this.#files.remove(id).catch(() => undefined);
    }
  }
}
