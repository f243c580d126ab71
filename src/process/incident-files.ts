// Incidents of this instance, each in a small file of its own under <dataDir>/alerts: they tell of a store that is in
// trouble, so they are not kept in it. Written by dq-upkeep, and by a master that has nobody left; read by dq-server too.
// Invariant: a file of an incident's name is a whole incident, whoever died while it was written.

import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeDurably } from '../runtime/durable-file.ts';

export const incidentKinds = ['crash_loop', 'given_up', 'store', 'redis', 'late'] as const;

/** The beginning or the end of one trouble. */
export interface Incident {
  /** rises with time, never used twice in a data directory */
  readonly id: number;
  readonly kind: (typeof incidentKinds)[number];
  /** whose trouble it is where there can be several at once: a role, a server; else '' */
  readonly about: string;
  readonly state: 'begun' | 'over';
  /** epoch ms by this machine's clock */
  readonly at: number;
  /** one sentence */
  readonly detail: string;
  readonly alert: 'owed' | 'sent' | 'nobody';
  /** when the alert was sent; null before */
  readonly sentAt: number | null;
}

/** That the master has ended the daemon, because it could not be kept alive. */
export const givenUp = { kind: 'given_up', about: '' } as const;
export const givenUpDetail = (reason: string): string => `the daemon has ended by itself: ${reason}`;

/** What has just happened, owed to whoever is to be told. `known`: the ids that are in use. */
export function newIncident(
  news: Pick<Incident, 'kind' | 'about' | 'state' | 'detail'>,
  known: Iterable<number>,
): Incident {
  const at = Date.now();
  const id = Math.max(at * 1_000, ...[...known].map((used) => used + 1));
  return { ...news, id, at, alert: 'owed', sentAt: null };
}

const nameOf = (id: number) => `${String(id).padStart(16, '0')}.json`;
const namePattern = /^\d{16}\.json$/;

export class IncidentFiles {
  readonly #directory: string;

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'alerts');
  }

  /** Oldest first. What is no incident is left out: another version of dq may have put it there. */
  async list(): Promise<readonly Incident[]> {
    const names = await readdir(this.#directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    const incidents = await Promise.all(
      names
        .filter((name) => namePattern.test(name))
        .sort()
        .map((name) => this.#read(name)),
    );
    return incidents.filter((incident) => incident !== null);
  }

  /** On the disk when it resolves. */
  async write(incident: Incident): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    await writeDurably(join(this.#directory, nameOf(incident.id)), `${JSON.stringify(incident)}\n`);
  }

  async remove(id: number): Promise<void> {
    await rm(join(this.#directory, nameOf(id)), { force: true });
  }

  async #read(name: string): Promise<Incident | null> {
    try {
      const read: unknown = JSON.parse(await readFile(join(this.#directory, name), 'utf8'));
      return isIncident(read) ? read : null;
    } catch (error) {
      // Gone between the listing and the reading, or no JSON: no incident.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT' || error instanceof SyntaxError) return null;
      throw error;
    }
  }
}

/** The troubles that have begun and are not over. */
export function openIncidents(oldestFirst: readonly Incident[]): readonly Incident[] {
  const last = new Map(oldestFirst.map((incident) => [`${incident.kind} ${incident.about}`, incident]));
  return [...last.values()].filter(({ state }) => state === 'begun');
}

function isIncident(read: unknown): read is Incident {
  const { id, kind, about, state, at, detail, alert, sentAt } = (read ?? {}) as Record<string, unknown>;
  return (
    Number.isSafeInteger(id) &&
    incidentKinds.some((known) => known === kind) &&
    typeof about === 'string' &&
    (state === 'begun' || state === 'over') &&
    Number.isSafeInteger(at) &&
    typeof detail === 'string' &&
    (alert === 'owed' || alert === 'sent' || alert === 'nobody') &&
    (sentAt === null || Number.isSafeInteger(sentAt))
  );
}
