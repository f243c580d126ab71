// Stores the incidents of this instance, each in a small file under <dataDir>/alerts. Not in the store:
// incidents report failures of the store. dq-upkeep writes them, and a master without workers; dq-server
// reads them, too.
// Invariant: a file with the name of an incident is a whole incident, also after a crash during the write.

import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Incident, incidentKinds, type LateJob } from '../core/incident.ts';
import { writeDurably } from '../runtime/files.ts';
import { wallNow } from '../runtime/time.ts';

/** An incident of now, whose alert is owed. `known`: the ids in use. */
export function newIncident(
  facts: Omit<Incident, 'id' | 'at' | 'alert' | 'sentAt'>,
  known: Iterable<number>,
): Incident {
  const at = wallNow();
  const id = Math.max(at * 1_000, ...[...known].map((used) => used + 1));
  return { ...facts, id, at, alert: 'owed', sentAt: null };
}

const nameOf = (id: number) => `${String(id).padStart(16, '0')}.json`;
const namePattern = /^\d{16}\.json$/;

export class IncidentFiles {
  readonly #directory: string;

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'alerts');
  }

  /** Oldest first. Leaves out other files: another version of dq may have written them. */
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
      // Removed after the listing, or not JSON: not an incident.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT' || error instanceof SyntaxError) return null;
      throw error;
    }
  }
}

function isIncident(read: unknown): read is Incident {
  const { id, kind, about, state, at, detail, oldest, topic, waiting, since, alert, sentAt } = (read ??
    {}) as Record<string, unknown>;
  return (
    Number.isSafeInteger(id) &&
    incidentKinds.some((known) => known === kind) &&
    typeof about === 'string' &&
    (state === 'begun' || state === 'over') &&
    Number.isSafeInteger(at) &&
    typeof detail === 'string' &&
    (oldest === undefined || isLateJob(oldest)) &&
    (topic === undefined || typeof topic === 'string') &&
    (waiting === undefined || Number.isSafeInteger(waiting)) &&
    (since === undefined || Number.isSafeInteger(since)) &&
    (alert === 'owed' || alert === 'sent' || alert === 'nobody') &&
    (sentAt === null || Number.isSafeInteger(sentAt))
  );
}

function isLateJob(read: unknown): read is LateJob {
  const { topic, id, dueAt } = (read ?? {}) as Record<string, unknown>;
  return typeof topic === 'string' && typeof id === 'string' && Number.isSafeInteger(dueAt);
}
