// Begins and ends of the failures of this instance, as the alerts and the overview show them.

import type { IncidentJson } from '../../../contract/api/alert.ts';
import { t } from '../words/words.ts';
import { Pill } from './parts.tsx';

/** `all`: newest first, so the first one of each kind and part says whether it is open. */
export function isOpen(incident: IncidentJson, all: readonly IncidentJson[]): boolean {
  const { kind, about } = incident;
  return (
    incident.state === 'begun' && all.find((one) => one.kind === kind && one.about === about) === incident
  );
}

export function IncidentState({ one, all }: { one: IncidentJson; all: readonly IncidentJson[] }) {
  if (one.state === 'over') return <Pill colour="done">{t('incident_over')}</Pill>;
  if (isOpen(one, all)) return <Pill colour="dead">{t('incident_open')}</Pill>;
  return <Pill colour="quiet">{t('incident_began')}</Pill>;
}
