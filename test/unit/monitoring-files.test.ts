// The alert rules and the dashboard ask only for metrics, labels and values that dq has, in the way that the
// type of the metric demands.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { type Declaration, declarationOf } from '../../src/telemetry/metric-declarations.ts';

const scripts = join(import.meta.dirname, '../../scripts');

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly description?: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
    readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] };
}

const dashboard = JSON.parse(readFileSync(join(scripts, 'grafana/dq.json'), 'utf8')) as Dashboard;
const rules = (
  parse(readFileSync(join(scripts, 'prometheus/dq.rules.yaml'), 'utf8')) as {
    readonly groups: readonly {
      readonly rules: readonly {
        readonly alert: string;
        readonly expr: string;
        readonly annotations: Readonly<Record<string, string>>;
      }[];
    }[];
  }
).groups.flatMap((group) => group.rules);

/** Prometheus adds them to every series that it scrapes. */
const scrapeLabels = ['job', 'instance'];
const functions = ['sum', 'max', 'min', 'by', 'rate', 'increase', 'histogram_quantile', 'label_values', 'up'];

/** What is wrong with an expression; `shown`: text that names labels of its result. */
function faultsOf(expression: string, shown = ''): readonly string[] {
  const faults: string[] = [];
  const known = new Set<string>(scrapeLabels);
  const selectors = [
    ...expression.matchAll(
      /(?<before>\w*\()?\b(?<name>dq_\w+|up\b)(?:\{(?<matchers>[^}]*)\})?(?<range>\[)?/g,
    ),
  ];
  for (const { groups = {} } of selectors) {
    const { before = '', name = '', matchers = '', range } = groups;
    const declaration = name === 'up' ? ({ type: 'gauge', labels: [] } as const) : metricOf(name);
    if (declaration === null) {
      faults.push(`${name}: unknown metric`);
      continue;
    }
    const isCounted = declaration.type !== 'gauge';
    if (isCounted !== (range !== undefined) || (isCounted && !['rate(', 'increase('].includes(before)))
      faults.push(`${name}: a ${declaration.type} in ${before || 'no function'}`);
    for (const [label] of declaration.labels) known.add(label);
    if (name.endsWith('_bucket')) known.add('le');
    for (const [, label = '', value = ''] of matchers.matchAll(/(\w+)[!=~]+"([^"]*)"/g))
      faults.push(...matcherFaults(name, declaration, label, value));
  }
  if (selectors.length === 0) faults.push('no metric');
  for (const [, list = ''] of expression.matchAll(/by \(([^)]*)\)/g))
    for (const label of list.split(', ')) if (!known.has(label)) faults.push(`by (${label})`);
  const grouped = [...expression.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(', '));
  const left = grouped.length > 0 ? new Set(grouped) : known;
  for (const [, label = ''] of shown.matchAll(/\{\{ ?(?:\$labels\.)?(\w+) ?\}\}/g))
    if (!left.has(label)) faults.push(`{{${label}}} is not a label of the result`);
  const rest = expression.replaceAll(/\{[^}]*\}|\[[^\]]*\]|by \([^)]*\)|"[^"]*"|\bdq_\w+/g, ' ');
  for (const [word] of rest.matchAll(/\b[a-z_]\w*/gi)) if (!functions.includes(word)) faults.push(word);
  return faults;
}

function matcherFaults(name: string, { labels }: Pick<Declaration, 'labels'>, label: string, value: string) {
  if (scrapeLabels.includes(label)) return [];
  const found = labels.find(([one]) => one === label);
  if (found === undefined) return [`${name}: unknown label ${label}`];
  const [, values] = found;
  if (values === null || value.startsWith('$')) return [];
  return value
    .split('|')
    .flatMap((one) => (values.includes(one) ? [] : [`${name}: ${label} is never ${one}`]));
}

/** A histogram is asked for by the names of its parts. */
function metricOf(name: string): Declaration | null {
  const whole = declarationOf(name);
  if (whole !== null) return whole.type === 'histogram' ? null : whole;
  const part = declarationOf(name.replace(/_(bucket|sum|count)$/, ''));
  return part?.type === 'histogram' ? part : null;
}

it('check: finds wrong names, labels, values and functions', () => {
  for (const [expression, fault] of [
    ['dq_job', 'dq_job: unknown metric'],
    ['max(dq_jobs{status="dead"})', 'dq_jobs: unknown label status'],
    ['max(dq_jobs{state=~"ready|died"})', 'dq_jobs: state is never died'],
    ['max by (topic) (dq_jobs)', 'by (topic)'],
    ['sum(dq_pushes_total)', 'dq_pushes_total: a counter in sum('],
    ['rate(dq_jobs[5m])', 'dq_jobs: a gauge in rate('],
    ['sum(rate(dq_push_seconds[5m]))', 'dq_push_seconds: unknown metric'],
    ['sum(rates(dq_pushes_total[5m]))', 'rates'],
    ['max(jobs)', 'no metric'],
  ] as const)
    expect(faultsOf(expression), expression).toContain(fault);
  expect(faultsOf('sum by (topic) (rate(dq_topic_events_total[5m]))', '{{event}}')).toEqual([
    '{{event}} is not a label of the result',
  ]);
});

it('alert rules: each expression and each sentence uses declared metrics and labels', () => {
  expect(rules.length).toBeGreaterThan(10);
  expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  for (const { alert, expr, annotations } of rules)
    for (const text of Object.values(annotations)) expect(faultsOf(expr, text), alert).toEqual([]);
});

it('dashboard: each expression and each legend uses declared metrics, labels and variables', () => {
  const names = dashboard.templating.list.map(({ name }) => name);
  const asked = dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({ title, expr, legendFormat })),
  );
  expect(asked.length).toBeGreaterThan(dashboard.panels.length / 2);
  for (const { title, expr, legendFormat } of asked) {
    expect(faultsOf(expr, legendFormat), title).toEqual([]);
    expect(expr, title).toContain('{job="$job", instance=~"$instance"');
  }
  const definitions = dashboard.templating.list.flatMap(({ definition = [] }) => definition);
  for (const definition of definitions) expect(definition).toMatch(/^label_values\(dq_\w+(\{.*\})?, \w+\)$/);
  const texts = [...asked.map(({ expr }) => expr), ...definitions];
  const used = texts.flatMap((text) => [...text.matchAll(/\$(?!__)(\w+)/g)].map(([, name = '']) => name));
  expect([...new Set(['datasource', ...used])].sort()).toEqual([...names].sort());
});

it('dashboard: belongs to no installation, and no panel covers another', () => {
  const text = JSON.stringify(dashboard);
  expect([...new Set([...text.matchAll(/"uid":"([^"]*)"/g)].map(([, uid]) => uid))]).toEqual(['$datasource']);
  for (const [i, { title, gridPos: one, targets, description }] of dashboard.panels.entries()) {
    expect(one.x + one.w, title).toBeLessThanOrEqual(24);
    if (targets !== undefined) expect(description, title).toMatch(/\?.*\.$/);
    for (const { gridPos: other } of dashboard.panels.slice(i + 1)) {
      const isBeside = one.x + one.w <= other.x || other.x + other.w <= one.x;
      const isAbove = one.y + one.h <= other.y || other.y + other.h <= one.y;
      expect(isBeside || isAbove, title).toBe(true);
    }
  }
});
