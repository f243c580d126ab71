// Begins and ends of the failures of this instance, as the alerts and the overview show them.

import type { IncidentJson } from '../../../contract/api/alert.ts';
import { dots, relative } from '../format.ts';
import { t } from '../words/words.ts';
import { List } from './list.tsx';
import { Pill } from './parts.tsx';
import { Time } from './time.tsx';

/** `all`: newest first, so the first one of each kind and part says whether it is open. */
export function isOpen(incident: IncidentJson, all: readonly IncidentJson[]): boolean {
  const { kind, about } = incident;
  return (
    incident.state === 'begun' && all.find((one) => one.kind === kind && one.about === about) === incident
  );
}

function State({ one, all }: { one: IncidentJson; all: readonly IncidentJson[] }) {
  if (one.state === 'over') return <Pill colour="done">{t('incident_over')}</Pill>;
  if (isOpen(one, all)) return <Pill colour="dead">{t('incident_open')}</Pill>;
  return <Pill colour="quiet">{t('incident_began')}</Pill>;
}

/** `shown`: those of `all` in the list. */
export const Incidents = ({
  shown,
  all,
  empty,
}: {
  shown: readonly IncidentJson[];
  all: readonly IncidentJson[];
  empty: string;
}) => (
  <List
    look="incidents"
    items={shown}
    empty={empty}
    keyOf={({ at, kind, about, state }) => `${at} ${kind} ${about} ${state}`}
    columns={{
      incident: {
        head: t('incident'),
        look: 'text',
        width: 'w4',
        cell: (one) => (
          <span class="two">
            {t(`incident_${one.kind}`)}
            <small>{dots(one.about, one.detail)}</small>
          </span>
        ),
        card: ({ kind }) => <span class="name grow">{t(`incident_${kind}`)}</span>,
      },
      state: { head: t('state'), cell: (one) => <State one={one} all={all} /> },
      since: {
        head: t('since'),
        look: 'right soft nowrap',
        isNamed: true,
        cell: ({ at }) => <Time at={at} />,
        card: ({ at }) => <Time at={at} text={relative} />,
      },
      emailed: { head: t('emailed'), isNamed: true, cell: ({ alert }) => t(`alert_${alert}`) },
      detail: { head: '', isOff: true, cell: ({ about, detail }) => dots(about, detail) },
    }}
    card={{ row: ['incident', 'state'], soft: ['detail'], faint: ['since', 'emailed'] }}
  />
);
