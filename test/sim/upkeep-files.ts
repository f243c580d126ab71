// The files of dq-upkeep in a world: statistics and incidents, in memory. They survive its processes.
// Left out: log files. A world writes none.

import type { Incident } from '../../src/core/incident.ts';
import type { StatDelta } from '../../src/ports/registry.ts';
import type { UpkeepSeams } from '../../src/upkeep/upkeep.ts';

type Files = Pick<UpkeepSeams, 'statFiles' | 'incidentFiles' | 'failureFile' | 'logFiles'>;

export class UpkeepFiles implements Files {
  readonly #statistics: (readonly StatDelta[])[] = [];
  readonly #incidents = new Map<number, Incident>();
  readonly statFiles: Files['statFiles'];
  readonly incidentFiles: Files['incidentFiles'];
  readonly failureFile: Files['failureFile'];
  readonly logFiles: Files['logFiles'] = { removeOldLogs: async () => [], trimOutput: async () => {} };

  constructor() {
    const [statistics, incidents] = [this.#statistics, this.#incidents];
    this.statFiles = {
      write: async (deltas) => void statistics.push(deltas),
      isEmpty: async () => statistics.length === 0,
      take: async () => statistics.shift() ?? [],
      copied: async () => [],
    };
    let failures: string | null = null;
    this.failureFile = {
      read: async () => failures,
      write: async (text) => {
        failures = text;
      },
    };
    this.incidentFiles = {
      list: async () => [...incidents.values()].sort((a, b) => a.id - b.id),
      write: async (incident) => void incidents.set(incident.id, incident),
      remove: async (id) => void incidents.delete(id),
    };
  }
}
