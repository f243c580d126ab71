// The dashboard that Grafana (10.4 and later) imports. Its data source is a variable, and it has no id: it
// belongs to no installation.

import { type Declaration, declarationOf } from '../../src/telemetry/metric-declarations.ts';
import { dashboardRows, type Panel, type Row } from './monitoring.ts';

const datasource = { type: 'prometheus', uid: '$datasource' } as const;
/** of the grid of Grafana */
const gridColumns = 24;
const heights = { stat: 4, lines: 8 } as const;

interface Place {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

export function grafanaDashboard(): string {
  const panels: object[] = [];
  let y = 0;
  for (const row of dashboardRows) {
    panels.push(rowPanel(row, panels.length + 1, y));
    y += 1;
    for (const kind of ['stat', 'lines'] as const) {
      const some = row.panels.filter((panel) => panel.kind === kind);
      const columns = columnsFor(kind, some.length);
      const w = gridColumns / columns;
      const h = heights[kind];
      for (const [i, panel] of some.entries()) {
        const place = { x: (i % columns) * w, y: y + Math.floor(i / columns) * h, w, h };
        panels.push(panelOf(panel, row, panels.length + 1, place));
      }
      y += Math.ceil(some.length / columns) * h;
    }
  }
  return `${JSON.stringify({ ...head, templating: { list: variables }, panels }, null, 2)}\n`;
}

/** Stats share one line; three graphs, or two where that fills the lines. */
function columnsFor(kind: Panel['kind'], panels: number): number {
  if (kind === 'stat') return Math.max(panels, 1);
  return panels % 3 === 0 ? 3 : 2;
}

const head = {
  title: 'dq',
  description: 'Jobs, calls, topics, stores and processes of dq. Written by `npm run docs` of dq.',
  tags: ['dq'],
  schemaVersion: 39,
  version: 1,
  editable: true,
  graphTooltip: 1,
  refresh: '30s',
  timezone: 'browser',
  time: { from: 'now-6h', to: 'now' },
  annotations: { list: [] },
  links: [],
} as const;

const variables: readonly object[] = [
  {
    name: 'datasource',
    label: 'Data source',
    type: 'datasource',
    query: 'prometheus',
    hide: 0,
    includeAll: false,
    multi: false,
    options: [],
    refresh: 1,
    regex: '',
  },
  // Two installations have different jobs and topics of the same names: they are never added up.
  variable('job', 'Installation', 'label_values(dq_info, job)', { multi: false }),
  variable('instance', 'Instance', 'label_values(dq_info{job="$job"}, instance)', { multi: true }),
  variable(
    'topic',
    'Topic',
    'label_values(dq_topic_events_total{job="$job", instance=~"$instance"}, topic)',
    {
      multi: true,
    },
  ),
];

function variable(
  name: string,
  label: string,
  query: string,
  { multi }: { readonly multi: boolean },
): object {
  return {
    name,
    label,
    type: 'query',
    datasource,
    definition: query,
    query: { query, refId: name },
    hide: 0,
    includeAll: multi,
    // Without it the query of "all" would contain the names of 100 topics.
    ...(multi ? { allValue: '.+' } : {}),
    multi,
    options: [],
    refresh: 2,
    regex: '',
    sort: 1,
  };
}

function rowPanel({ title }: Row, id: number, y: number): object {
  return { id, type: 'row', title, collapsed: false, gridPos: { x: 0, y, w: gridColumns, h: 1 }, panels: [] };
}

function panelOf(panel: Panel, row: Row, id: number, gridPos: Place): object {
  const { title, description, kind, series } = panel;
  return {
    id,
    type: kind === 'stat' ? 'stat' : 'timeseries',
    title,
    description,
    datasource,
    gridPos,
    fieldConfig: { defaults: fieldsOf(panel), overrides: [] },
    options: kind === 'stat' ? statOptions(panel) : lineOptions,
    targets: series.map(({ expression, legend }, i) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + i),
      datasource,
      editorMode: 'code',
      expr: scoped(expression, row),
      legendFormat: legend,
      range: true,
    })),
  };
}

/** Adds the variables to each selector. */
export function scoped(expression: string, { isByTopic }: Pick<Row, 'isByTopic'>): string {
  return expression.replaceAll(
    /\b(dq_\w+)(?:\{([^}]*)\})?/g,
    (_, name: string, matchers: string | undefined) => {
      const scope = ['job="$job"', 'instance=~"$instance"'];
      if (isByTopic && hasTopic(name)) scope.push('topic=~"$topic"');
      return `${name}{${[...scope, ...(matchers === undefined ? [] : [matchers])].join(', ')}}`;
    },
  );
}

function hasTopic(name: string): boolean {
  const declaration: Declaration | null = declarationOf(name);
  return declaration?.labels.some(([label]) => label === 'topic') ?? false;
}

function fieldsOf({ kind, unit, limits, isBadAtZero, without }: Panel): object {
  const isJudged = limits !== undefined || isBadAtZero === true;
  const steps =
    isBadAtZero === true
      ? [
          { color: 'red', value: null },
          { color: 'green', value: 1 },
        ]
      : [
          // A number without a limit is neither good nor bad.
          { color: isJudged ? 'green' : 'text', value: null },
          ...(limits?.orange === undefined ? [] : [{ color: 'orange', value: limits.orange }]),
          ...(limits?.red === undefined ? [] : [{ color: 'red', value: limits.red }]),
        ];
  return {
    unit,
    min: 0,
    // Prometheus extrapolates an increase, so that 5 events are 5.03.
    ...(kind === 'stat' && unit === 'short' ? { decimals: 0 } : {}),
    ...(without === undefined ? {} : { noValue: without }),
    color: { mode: kind === 'stat' ? 'thresholds' : 'palette-classic' },
    thresholds: { mode: 'absolute', steps },
    ...(kind === 'stat'
      ? {}
      : {
          custom: {
            drawStyle: 'line',
            lineWidth: 1,
            fillOpacity: 10,
            showPoints: 'never',
            spanNulls: false,
            thresholdsStyle: { mode: isJudged ? 'dashed' : 'off' },
          },
        }),
  };
}

function statOptions({ series, unit }: Panel): object {
  const isNamed = series.length > 1 || series.some(({ legend }) => legend.includes('{{'));
  return {
    colorMode: 'value',
    // A value without a unit is only a carrier of its name.
    graphMode: unit === 'none' ? 'none' : 'area',
    justifyMode: 'auto',
    orientation: 'auto',
    textMode: unit === 'none' ? 'name' : isNamed ? 'value_and_name' : 'value',
    reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
  };
}

const lineOptions = {
  legend: { calcs: ['lastNotNull', 'max'], displayMode: 'table', placement: 'bottom', showLegend: true },
  tooltip: { mode: 'multi', sort: 'desc' },
} as const;
